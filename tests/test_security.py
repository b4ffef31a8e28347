"""The page about security: each of its promises is named by tests, and its figures are those of the sources."""

from __future__ import annotations

import ast
import asyncio
import functools
import gc
import hashlib
import re
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aiompi.core import allocation
from aiompi.engine import peer, withheld
from aiompi.impi import auth, key_exchange
from aiompi.net import tls
from aiompi.objects import arrays, decode, type_tags
from aiompi.settings import MAX_WINDOW, Settings
from aiompi.transport import stream, unread
from aiompi.wire import agreement, control, frame, hello, version
from aiompi.wire.frame import HEADER
from aiompi_launcher.conformance.web import listener as web
from aiompi_launcher.job import members, traffic
from aiompi_launcher.net import control as agent
from aiompi_launcher.net import listen
from aiompi_launcher.net.control import ControlServer
from support.cases import cases
from support.frames import Header
from support.limits import LIMIT
from support.pages import PAGES, ROOT, text_of
from support.worlds import PolledWorld, RawPeer, irecv, isend

(PAGE,) = (page for page in PAGES if page.name == "security.md")

#: words of the page -> the tests of what is promised there; none where nothing is
PROMISES: Final = {
    # The key of a job
    "Each job has a key of 256 bits": "launcher/test_run.py::test_two_jobs_at_once",
    "Both ends of every connection prove that they know its key": "wire/test_hello.py::test_both_sides_prove_the_key",
    "before they read any other data": (
        "test_security.py::test_nothing_unproven_reaches_openssl_or_a_decoder, "
        "faults/test_strangers.py::test_tcp_ports, "
        "faults/test_strangers.py::test_unix_sockets, faults/test_strangers.py::test_ports_of_a_job_that_others_join"
    ),
    "The key itself is never sent": "wire/test_hello.py::test_key_is_never_sent_and_nothing_repeats",
    "never shown on a command line": "launcher/test_run.py::test_what_only_the_ranks_find",
    "and open no port": (
        "launcher/test_hosts.py::test_neither_agents_nor_ranks_of_one_machine_open_a_port, "
        "cluster/test_hosts.py::test_no_agent_opens_a_port"
    ),
    "A process that knows the key can run code": "objects/test_codec.py::test_pickles_are_refused_when_pickling_is_off",
    "Without pickling a message is data": (
        "objects/test_codec.py::test_built_in_types_come_back_exactly_without_pickle, "
        "objects/test_dataclass.py::test_only_imported_dataclasses_are_received_without_pickle, "
        "objects/test_dataclass.py::test_modules_are_imported_only_with_pickle"
    ),
    "made without `__init__` and `__post_init__`": (
        "objects/test_dataclass.py::test_neither_init_nor_post_init_run, "
        "objects/test_dataclass.py::test_the_sender_chooses_each_field_also_without_pickle"
    ),
    "There are bounds for data that would take quadratic time": (
        "objects/test_malformed.py::test_many_keys_of_one_hash_are_refused, "
        "objects/test_malformed.py::test_shapes_that_no_array_has, "
        "objects/test_malformed.py::test_a_range_of_long_numbers_is_refused"
    ),
    "and the depth": (
        "objects/test_malformed.py::test_a_dtype_that_is_nested_deeply_is_refused, "
        "objects/test_codec.py::test_deep_nesting_ends_in_an_object_or_an_error_that_names_it"
    ),
    # Connections
    "All TCP connections are encrypted with TLS 1.3": (
        "net/test_tls.py::test_which_connections_are_encrypted, "
        "cluster/test_network.py::test_what_leaves_a_host_is_encrypted"
    ),
    "asks the kernel for the user of the process at the other end": (
        "faults/test_relays.py::test_a_process_of_another_user_gets_no_word_over_a_unix_socket"
    ),
    "users on one host use TCP": "faults/test_relays.py::test_ranks_of_different_users_do_not_use_unix_sockets",
    "what protects the connection at its end": (
        "wire/test_hello.py::test_both_ends_must_protect_the_connection_alike, "
        "wire/test_hello.py::test_what_an_end_says_of_its_channel_cannot_be_changed_on_the_way, "
        "faults/test_relays.py::test_both_ends_encrypt_or_none"
    ),
    "Then both report it": "faults/test_relays.py::test_a_rank_and_an_agent_that_differ",
    "only peers that have proven the key reach OpenSSL": (
        "test_security.py::test_nothing_unproven_reaches_openssl_or_a_decoder"
    ),
    "both ends prove the key once more": (
        "wire/test_hello.py::test_both_sides_prove_the_key_over_their_channel, "
        "wire/test_hello.py::test_a_proof_is_for_one_channel_and_one_side, "
        "net/test_tls.py::test_both_ends_tell_a_channel_from_others"
    ),
    "The accepting end makes its own certificate": (
        "net/test_tls.py::test_the_public_key_and_the_signature_are_those_of_the_standard"
    ),
    "use certificates of your site": (
        "net/test_tls.py::test_a_certificate_of_the_site, net/test_tls.py::test_a_job_over_tls"
    ),
    "What it costs, between two ranks": "",  # a measurement
    # What a relay can do
    "A *relay* is a process without the key": "",  # a definition
    "*Both ends have TLS.*": (
        "net/test_tls.py::test_nothing_that_passes_on_the_hello_is_in_between_ranks, "
        "faults/test_relays.py::test_a_relay_between_ranks_on_one_host, "
        "faults/test_relays.py::test_a_relay_beside_the_agent_of_an_open_job, "
        "faults/test_relays.py::test_a_relay_beside_the_agent_of_a_job, "
        "cluster/test_network.py::test_a_relay_of_another_user_gets_nothing, "
        "launcher/test_control.py::test_nothing_that_passes_on_the_hello_is_in_between"
    ),
    "*One end has TLS, and the other has not*": "faults/test_relays.py::test_a_relay_between_a_unix_socket_and_tcp",
    "*Both ends are Unix sockets.*": (
        "faults/test_relays.py::test_a_process_of_another_user_gets_no_word_over_a_unix_socket"
    ),
    "None of this depends on addresses": "faults/test_relays.py::test_a_forward_is_no_relay",
    "A relay of any user, on either host": "faults/test_relays.py::test_what_a_relay_gets_without_encryption",
    # Peers that have the key
    "A rank trusts no frame.": (
        "transport/test_hostile_peer.py::test_no_frame_raises_in_calls_that_have_nothing_to_do_with_it, "
        "core/test_ring.py::test_nothing_but_a_protocol_error_comes_of_any_memory, "
        "faults/test_impostors.py::test_a_rank_that_scribbles_in_shared_memory_harms_no_others, "
        "transport/shared_memory/test_slots.py::test_a_slot_that_has_another_length_than_it_claims"
    ),
    "invalid frames and objects": (
        "objects/test_malformed.py::test_mutated_messages_load_or_are_malformed, "
        "engine/test_peer.py::test_answer_to_nothing_is_refused, "
        "engine/test_peer.py::test_answer_that_does_not_suit_its_message_is_refused, "
        "engine/test_peer.py::test_a_message_that_is_not_asked_for_is_not_matched, "
        "engine/test_peer.py::test_unknown_kind_is_refused_after_the_frames_before_it"
    ),
    "Any other error in the handling of a peer's data": (
        "transport/test_hostile_peer.py::test_whatever_goes_wrong_with_a_frame_breaks_its_connection_once"
    ),
    "messages with a source other than the rank": (
        "transport/test_hostile_peer.py::test_source_of_another_rank_is_refused"
    ),
    "to use memory for data that has not come": (
        "engine/test_peer.py::test_an_announced_message_takes_memory_only_as_it_comes"
    ),
    "more eager bytes than the credit": "engine/test_peer.py::test_more_eager_bytes_than_granted_are_refused",
    "announced messages that wait for their receives": (
        "transport/test_hostile_peer.py::test_announcements_are_bounded, "
        "engine/test_peer.py::test_questions_are_bounded, "
        "engine/test_peer.py::test_an_answer_to_a_question_that_was_not_put_is_refused"
    ),
    "an announced message takes": "test_security.py::test_memory_that_frames_of_a_peer_take",
    "withholds further messages, with a warning": (
        "engine/test_peer.py::test_what_follows_many_announcements_is_withheld_and_comes_in_order, "
        "engine/test_peer.py::test_a_probe_finds_a_message_that_is_withheld, "
        "engine/test_peer.py::test_a_sender_that_withholds_says_so_once"
    ),
    "connections of one peer over a transport": (
        "transport/test_hostile_peer.py::test_connections_of_one_peer_are_bounded"
    ),
    "to copy a message more than once": (
        "transport/shared_memory/test_copies.py::test_invitations_that_come_again, "
        "core/test_copy.py::test_a_receiver_that_takes_back_what_was_claimed_gets_a_message_once"
    ),
    "to block or spin for as long as a peer wants": (
        "driver/test_doorbell.py::test_nothing_is_done_to_a_doorbell_that_can_block, "
        "driver/test_doorbell.py::test_threads_do_nothing_to_a_doorbell_that_can_block, "
        "core/test_copy.py::test_memory_is_given_back_when_the_sender_has_died, "
        "transport/shared_memory/test_copies.py::test_no_sender_writes_into_memory_of_a_rank_with_an_event_loop, "
        "faults/test_stopped.py::test_a_time_limit_ends_a_receive_whose_sender_is_stopped"
    ),
    "for a peer that does not read them": (
        "transport/test_hostile_peer.py::test_answers_that_a_peer_does_not_read_are_bounded"
    ),
    "They take at most 0.3 KB": "test_security.py::test_memory_of_answers_that_a_peer_does_not_read",
    "more credit for short messages than it has spent": (
        "transport/test_hostile_peer.py::test_a_peer_returns_no_more_credit_than_was_spent"
    ),
    "communicators that the rank has not made": (
        "transport/test_hostile_peer.py::test_contexts_that_messages_open_are_bounded"
    ),
    "They take at most 2.5 KB": "test_security.py::test_memory_that_frames_of_a_peer_take",
    "trust their ranks and members just as little": (
        "wire/test_control.py::test_fuzz_with_well_formed_msgpack, "
        "launcher/test_control.py::test_a_rank_that_breaks_the_protocol"
    ),
    "A message of a rank or member has at most": (
        "wire/test_control.py::test_what_ranks_may_send_is_shorter, "
        "wire/test_control.py::test_what_the_agent_keeps_is_shorter_still, "
        "wire/test_control.py::test_long_texts_are_shortened_and_longer_ones_refused, "
        "wire/test_control.py::test_nothing_is_nested_deeply, "
        "wire/test_control.py::test_what_is_nested_as_deeply_as_possible_can_be_passed_on, "
        "launcher/test_survival.py::test_the_longest_report_of_a_failure_does_not_grow_on_its_way"
    ),
    "wait for a rank or member to read them": (
        "launcher/test_control.py::test_what_a_rank_does_not_read_is_bounded, "
        "job/test_members.py::test_a_member_that_does_not_read_costs_little_and_learns_which_are_there"
    ),
    "All members together say at most": (
        "launcher/test_members.py::test_what_all_members_say_of_themselves_fits_into_a_message"
    ),
    "An agent on another host reads data of its ranks only as fast": (
        "launcher/test_hosts.py::test_no_more_is_read_for_the_launcher_than_it_reads"
    ),
    "A rank takes part in at most": (
        "wire/test_agreement.py::test_one_rank_cannot_begin_any_number, "
        "launcher/test_survival.py::test_a_rank_revokes_many_communicators_but_not_without_end"
    ),
    "a rank that names other members disturbs none": (
        "faults/test_impostors.py::test_a_rank_that_names_other_members_of_an_agreement_harms_nobody"
    ),
    "Of a rank's reports of failures in jobs": (
        "launcher/test_survival.py::test_a_rank_reports_many_failures_in_spawned_jobs_but_not_without_end"
    ),
    "Wait reports are compared": (
        "launcher/test_inquiry.py::test_a_rank_that_reports_without_end_is_heard_from_time_to_time, "
        "wire/test_wait_report.py::test_the_text_about_hostile_reports_is_bounded"
    ),
    "A member that wants a larger world": (
        "launcher/test_members.py::test_a_member_that_wants_too_many_is_left_out_when_the_time_is_over"
    ),
    "A member that asks for worlds again and again": (
        "launcher/test_members.py::test_a_member_that_asks_again_and_again_leaves_nothing_behind, "
        "launcher/test_members.py::test_a_member_that_asks_again_gives_up_the_world_that_has_not_started"
    ),
    "From each rank or member 16 KiB are read in turn": (
        "launcher/test_control.py::test_a_rank_that_says_much_leaves_turns_to_the_others, "
        "launcher/test_members.py::test_the_name_of_a_host_in_messages_is_short"
    ),
    # Ranks that speak for others
    "The agent gives each rank that joins a key of 128 bits": (
        "wire/test_hello.py::test_each_two_ranks_have_a_key_of_their_own, "
        "wire/test_hello.py::test_a_rank_is_believed_only_for_its_own_number, "
        "faults/test_impostors.py::test_no_rank_speaks_for_another_one"
    ),
    "At 1,000 ranks these keys take": "test_security.py::test_the_keys_of_a_thousand_ranks",
    "Processes of two groups that meet": (
        "faults/test_impostors.py::test_no_rank_speaks_for_another_one, "
        "create/test_ports.py::test_wrong_first_message_at_a_port_is_ignored"
    ),
    "no process of another group can get a number of this job": (
        "create/test_ports.py::test_a_leader_that_lies_gets_an_error_of_mpi"
    ),
    "The name of a port has its own key": (
        "wire/test_hello.py::test_key_of_one_namespace_proves_nothing_in_another, "
        "create/test_ports.py::test_name_that_is_none_of_a_port"
    ),
    "A rank that the launcher starts gets a key of its own": (
        "launcher/test_control.py::test_only_a_rank_that_has_read_the_answer_may_have_another_key, "
        "wire/test_hello.py::test_a_rank_is_believed_only_for_its_own_number"
    ),
    "no process can take its place until it has left": (
        "launcher/test_job.py::test_taken, launcher/test_job.py::test_again_after_it_has_left"
    ),
    "A rank's report that its link to another rank is broken": (
        "faults/test_impostors.py::test_a_rank_is_not_believed_that_others_are_lost, "
        "launcher/test_survival.py::test_a_hostile_rank_has_at_most_one_other_expelled"
    ),
    "The operating system does not protect": "",  # what is not promised
    # Tests on several hosts
    "Before the proof pytest reads no other byte": "testing/test_links.py::test_strangers",
    "A process takes it out of its environment": "cluster/test_pytest.py::test_ranks_of_two_hosts",
    # Ranks that copy from each other, under Yama
    "before any other rank knows it, until it has finalized": (
        "transport/shared_memory/test_admission.py::"
        "test_a_rank_names_its_agent_before_others_know_it_and_nobody_after_its_end, "
        "transport/shared_memory/test_admission.py::test_all_processes_are_never_named, "
        "transport/shared_memory/test_admission.py::test_the_kernel_gets_the_number, "
        "launcher/test_admission.py::test_ranks_name_the_launcher_that_has_forked_them, "
        "launcher/test_admission.py::test_ranks_of_other_hosts_name_the_agent_there"
    ),
    "therefore names no process, and neither does a rank without such copies": (
        "transport/shared_memory/test_admission.py::test_a_rank_names_nobody_that_does_not_copy_or_takes_only_data"
    ),
    "only if it is an ancestor": (
        "transport/shared_memory/test_admission.py::test_no_process_is_named_that_is_no_ancestor, "
        "launcher/test_admission.py::test_ranks_that_join_by_themselves_name_nobody"
    ),
    "The modes 2 and 3 of Yama": "transport/shared_memory/test_admission.py::test_nobody_is_named_in_other_modes",
    # Where ranks listen
    "Sockets live in a directory of mode 0700": (
        "launcher/test_rundir.py::test_only_its_owner_may_enter, "
        "launcher/test_rundir.py::test_a_directory_that_is_not_there_is_avoided"
    ),
    "must belong to the user alone": "create/test_names.py::test_a_link_in_place_of_the_usual_directory_of_names",
    "only files of aiompi are ever removed there": (
        "create/test_names.py::test_other_files_in_the_directory_of_names_are_left_alone, "
        "launcher/test_rundir.py::test_what_is_no_directory_of_a_job_is_left_alone"
    ),
    "bind to loopback unless told otherwise": (
        "transport/test_sockets.py::test_listens_on_loopback_unless_told_otherwise"
    ),
    "listen on all addresses, or on those of": (
        "cluster/test_network.py::test_the_agent_of_rank_0_takes_the_interface_and_a_port_of_the_range"
    ),
    "connections that have not proven themselves": (
        "transport/test_dial.py::test_more_strangers_than_may_be_half_open, "
        "transport/test_dial.py::test_strangers_that_say_nothing_make_place_first, "
        "transport/test_dial.py::test_as_many_connections_as_there_are_ranks_are_not_too_many, "
        "launcher/test_control.py::test_too_many_strangers_push_out_the_oldest"
    ),
    "0.1 s to begin, and 1 s to go on": (
        "launcher/test_control.py::test_a_crowd_of_strangers_pushes_out_no_rank_that_has_begun"
    ),
    "`AIOMPI_CONNECT_TIMEOUT` to prove itself": (
        "launcher/test_serve.py::test_the_time_for_the_proof_of_the_key_is_limited, "
        "transport/test_dial.py::test_stranger_that_says_nothing_is_dropped_after_a_while"
    ),
    "In this time it delays no other event": (
        "faults/test_strangers.py::test_a_stranger_does_not_hold_up_the_news_that_a_rank_has_left"
    ),
    "If descriptors run out, a rank closes a connection": (
        "transport/test_dial.py::test_without_descriptors_a_stranger_makes_room_that_has_said_no_hello"
    ),
    "three quarters of these places to one source": (
        "launcher/test_control.py::test_a_crowd_of_one_source_holds_up_no_other, "
        "launcher/test_listen.py::test_sources_of_connections"
    ),
    "Further connections wait, at most": (
        "launcher/test_control.py::test_of_too_many_that_wait_the_last_of_the_largest_crowd_are_closed"
    ),
    # Viewers of a job
    "sends no byte to others than its own user and root": "launcher/test_top.py::test_no_other_user_looks",
    "At most 16 look at a time": "launcher/test_top.py::test_a_viewer_only_looks",
    "Characters that move the cursor of a terminal": "launcher/test_top.py::test_ranks_of_a_table",
    # IMPI
    "Where both ends are aiompi and have `IMPI_AUTH_KEY`": (
        "launcher/test_clients.py::test_what_clients_say_to_their_server, "
        "launcher/test_clients.py::test_nothing_without_the_key_is_in_between, "
        "launcher/impi/test_host.py::test_a_host_that_has_no_key_has_no_channel_over_tls, "
        "cluster/test_network.py::test_what_a_listener_sees_of_clients"
    ),
    "Each try takes 16 MiB": "test_security.py::test_a_guess_of_an_impi_key_takes_memory_and_time",
    "Towards other implementations the bytes": (
        "impi/test_client.py::test_the_known_conversation_with_a_key, "
        "launcher/test_foreign.py::test_channels_that_must_be_encrypted, "
        "launcher/test_clients.py::test_encryption_needs_a_key"
    ),
    "comes from an exchange": (
        "impi/test_native.py::test_what_crosses_the_network_does_not_hold_the_key, "
        "impi/test_native.py::test_the_group_is_that_of_the_rfc"
    ),
    "Unencrypted channels have no authentication": (
        "impi/test_host.py::test_the_address_is_compared_with_the_published_one, "
        "launcher/impi/test_host.py::test_strangers_are_dropped"
    ),
    # The page of the conformance tester
    "Every request needs the token": (
        "launcher/conformance/web/test_page.py::test_a_token_is_needed, "
        "launcher/conformance/web/test_page.py::test_no_page_elsewhere_can_reach_in"
    ),
    "A client without the token gets one answer": (
        "launcher/conformance/web/test_page.py::test_a_token_is_needed, "
        "launcher/conformance/web/test_page.py::test_silent_connections_hold_up_nobody, "
        "launcher/conformance/web/test_page.py::test_a_request_has_little_time"
    ),
}  # fmt: skip


def plain(text: str) -> str:
    return " ".join(text.split())


def items() -> list[str]:
    """The paragraphs and the items of lists of the page."""
    found: list[str] = []
    for paragraph in text_of(PAGE).split("\n\n"):
        found += [plain(item) for item in re.split(r"\n(?=- )", paragraph)]
    return [item for item in found if item and not item.startswith(("#", "|"))]


def test_each_paragraph_promises_something_that_is_tested() -> None:
    assert [item[:80] for item in items() if not any(words in item for words in PROMISES)] == []


@cases("words", PROMISES)
def test_a_promise_is_on_the_page_and_has_tests(words: str) -> None:
    assert plain(text_of(PAGE)).count(words) == 1
    for test in filter(None, map(str.strip, PROMISES[words].split(","))):
        path, _, name = test.partition("::")
        assert name.startswith("test_"), f"{test} is no test"
        assert name in named_in(ROOT / "tests" / path), f"there is no test {test}"


#: a measurement, a definition, and what the operating system does
NO_PROMISES: Final = {
    "What it costs, between two ranks",
    "A *relay* is a process without the key",
    "The operating system does not protect",
}


def test_what_has_no_tests_promises_nothing() -> None:
    assert {words for words in PROMISES if not PROMISES[words]} == NO_PROMISES


@functools.cache
def named_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def in_figures(number: float) -> str:
    return f"{number:,.0f}"


MIB: Final = 2**20

#: what the page says, and the figure in it as the sources have it
FIGURES: Final = {
    "a key of {} bits, by which its processes join": 8 * hello.KEY_BYTES,
    "a key of {} bits for each other rank": 8 * hello.PAIR_KEY_BYTES,
    "({} keys of one hash": decode.MOST_ALIKE,
    "in a set or dict of more than {},": decode.MOST_ALIKE,
    "numbers of {} bits in a range": type_tags.RANGE_BITS,
    "{} of a dtype": arrays._DEPTH,
    "an announced message of more than {} MiB": allocation.LARGEST / MIB,
    "more than {} announced messages": frame.MAX_ANNOUNCED,
    "messages of {} tags at a time": withheld.MAX_QUESTIONS,
    "more than {} connections of one peer": stream.MAX_LINKS,
    "more than {} frames without data": unread.MAX_UNREAD,
    "of {} GiB at most": MAX_WINDOW / 2**30,
    "more than {} communicators that the rank has not made": peer.MAX_CONTEXTS,
    "A message of a rank or member has at most {} MiB": control.MAX_FROM_RANK / MIB,
    "the attributes of a member {} KiB": control.MAX_ATTRIBUTES / 2**10,
    "a business card and the attributes of a member {} KiB": control._LONGEST[control.Card] / 2**10,
    "a text {} characters": control.MAX_TEXT,
    "nested at most {} levels deep": control.MAX_DEPTH,
    "At most {} MiB wait for a rank or member": agent.MAX_UNREAD / MIB,
    "say at most {} MiB of themselves": members.MAX_CARDS / MIB,
    "at most {} agreements at once": agreement.MAX_OPEN,
    "at most {} communicators in one world": traffic.MAX_REVOCATIONS,
    "failures in jobs that it has spawned, {} MiB is passed on": traffic.MAX_OBITUARIES / MIB,
    "A listener has at most {} connections": stream.MAX_GREETINGS,
    "that of the agent {},": agent.MAX_STRANGERS,
    "and {} s to go on": listen._BEGUN,
    "that has said no hello within {} s": stream._FOR_HELLO,
    "at most {} connections (or a": listen._MOST_WAITING,
    "(Diffie-Hellman, {} bits)": key_exchange.PRIME.bit_length(),
    "A connection has {} seconds for its first request": web.PATIENCE,
    "{} may be without one": web.MOST_WAITING,
}


@cases("words", FIGURES)
def test_figures_are_those_of_the_sources(words: str) -> None:
    assert words.format(in_figures(FIGURES[words])) in plain(text_of(PAGE))


def test_the_keys_of_a_thousand_ranks() -> None:
    assert len(hello.pair_keys(bytes(hello.KEY_BYTES), 5, range(1000))) == 16_000


def test_a_guess_of_an_impi_key_takes_memory_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    derive, derived = hashlib.scrypt, []

    def scrypt(password: bytes, **options: Any) -> bytes:
        with pytest.raises(ValueError, match="memory limit"):
            derive(password, **options, maxmem=16 * MIB)
        derived.append(derive(password, **options, maxmem=17 * MIB))
        return derived[-1]

    monkeypatch.setattr("hashlib.scrypt", scrypt)
    proofs, begun = set(), time.process_time()
    for key in range(2**63, 2**63 + 3):
        proofs.add(auth.Credentials(key=key).proof(b"client", b"channel"))
    assert len(proofs) == len(derived) == 3
    assert time.process_time() - begun > 3 * 0.01, "some 50 ms on a machine of 2020, and never nearly nothing"


#: what a stranger says that knows everything but the key
STRANGERS: Final = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(507),
    "a frame": HEADER.pack(*Header(frame.EAGER, length=2**62)),
    "a control message": control.encode(control.Join(1)),
    "a hello without a proof, and then TLS": version.banner() + bytes(70) + b"\x16\x03\x01" + bytes(200),
}


@pytest.mark.parametrize("said", STRANGERS)
def test_nothing_unproven_reaches_openssl_or_a_decoder(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    def note(place: str) -> Callable[..., Any]:
        return lambda *_, **__: reached.append(place)

    monkeypatch.setattr(tls, "secure", note("OpenSSL"))
    monkeypatch.setattr(control.Decoder, "receive_data", note("the decoder of messages"))
    monkeypatch.setattr(stream, "FrameReader", note("the reader of frames"))
    with PolledWorld("tcp", 2, "", tls="on") as w, RawPeer(w, 0) as rank:
        rank.send(STRANGERS[said])
        w.until(rank.dropped)
    asyncio.run(_served(STRANGERS[said]))
    assert reached == []


async def _served(said: bytes) -> None:
    """Let a stranger speak to an agent, until it is dropped."""
    ended = asyncio.Event()
    observer = SimpleNamespace(on_stranger=lambda *_: ended.set(), on_shortage=None)
    with listen.listen_tcp("127.0.0.1") as listener:
        server = ControlServer(observer, bytes(32), listener, hello_timeout=LIMIT, settings=Settings())
        try:
            with socket.create_connection(listener.getsockname()) as stranger:
                stranger.sendall(said)
                await asyncio.wait_for(ended.wait(), LIMIT)
        finally:
            server.close()


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Return a function that returns the bytes that were allocated since."""

    def allocated() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    yield allocated
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("header", "most"),
    [
        (lambda number: Header(frame.RTS, length=10**9, srqid=number), 900),
        (lambda number: Header(frame.RTS, tag=number, length=10**9, srqid=number), 900),
        (lambda number: Header(frame.EAGER, context=10 + number), 2500),
        (lambda number: Header(frame.RTS, context=10 + number, srqid=number), 2500),
    ],
    ids=["announced", "of many tags", "of many communicators", "announced, of many communicators"],
)
def test_memory_that_frames_of_a_peer_take(
    header: Callable[[int], Header], most: int, traced: Callable[[], int], tmp_path: Path
) -> None:
    count = 2000
    with PolledWorld("unix", 2, str(tmp_path)) as w:
        w.finish(isend(w.comms[0], b"connect", 1, 0), irecv(w.comms[1], 0, 0))
        before = traced()
        for number in range(1, count + 1):
            hurl(w, header(number))
            if not number % 100:
                w.poll()
        w.until(lambda: sum(matcher.arrivals for matcher in w.engines[1].contexts.values()) == count)
        assert traced() - before < count * most


def test_memory_of_answers_that_a_peer_does_not_read(traced: Callable[[], int], tmp_path: Path) -> None:
    with PolledWorld("unix", 2, str(tmp_path)) as w:
        w.finish(isend(w.comms[0], b"connect", 1, 0), irecv(w.comms[1], 0, 0))
        (mute,), (link,) = w.links(0, 1), w.links(1, 0)
        assert mute._socket is not None
        w.drivers[0].remove_reader(mute._socket.fileno())
        before = traced()
        while len(link._queue) < 2000:
            if mute.idle:
                hurl(w, *[Header(frame.CANCEL, srqid=5)] * 100)
            w.poll()
        assert traced() - before < len(link._queue) * 300
        w.drivers[0].add_reader(mute._socket.fileno(), mute._readable)


def hurl(w: PolledWorld, *headers: Header) -> None:
    """Let rank 0 send frames to rank 1 that its engine does not know of."""
    for header in headers:
        w.links(0, 1)[0].send(HEADER.pack(*header), (), None)
