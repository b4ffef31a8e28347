"""The manifests in `examples/kubernetes`, against the schemas of what they are for.

The schemas are imported by the tests: all processes of pytest-xdist import all files, and one of them runs this one.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiompi.job.bootstrap.fixed import Indexed

DIRECTORY = Path(__file__).parents[2] / "examples" / "kubernetes"
#: what `spec` of an MPIJob may have, by the CRD of the MPI Operator (kubeflow.org/v2beta1); types stand for values
MPIJOB = {
    "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
    "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
    "mpiReplicaSpecs": dict,
    "runLauncherAsWorker": bool,
    "runPolicy": dict,
    "slotsPerWorker": int,
    "sshAuthMountPath": str,
}
RUN_POLICY = {
    "activeDeadlineSeconds": int,
    "backoffLimit": int,
    "cleanPodPolicy": ("None", "Running", "All"),
    "managedBy": str,
    "schedulingPolicy": dict,
    "suspend": bool,
    "ttlSecondsAfterFinished": int,
}
REPLICAS = {"replicas": int, "restartPolicy": ("Never", "OnFailure"), "template": dict}


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DIRECTORY / name).read_text()))


def validate(manifest: dict[str, Any]) -> None:
    """Validate a manifest of Kubernetes itself, for its oldest and its newest version; no other fields are allowed."""
    import kubernetes_validate
    from kubernetes_validate.utils import all_versions

    for version in (all_versions()[0], all_versions()[-1]):
        kubernetes_validate.validate(manifest, version, strict=True)


def check_job(job: dict[str, Any], first: str) -> None:
    """An indexed Job whose ranks all run at the same time, and find rank 0 and the key."""
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    environ = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    rank = Indexed(environ | {"JOB_COMPLETION_INDEX": "3"})
    assert (rank.rank, rank.size, rank.host) == (3, 4, first)
    assert (job["completionMode"], job["completions"], job["parallelism"], job["backoffLimit"]) == ("Indexed", 4, 4, 0)
    assert pod["restartPolicy"] == "Never"
    assert container["env"][-1]["name"] == "AIOMPI_KEY"
    assert container["env"][-1]["valueFrom"] == {"secretKeyRef": {"name": "aiompi-key", "key": "key"}}


def test_job() -> None:
    service, job = manifests("job.yaml")
    for manifest in (service, job):
        validate(manifest)
    name = job["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert service["spec"]["clusterIP"] == "None"
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    check_job(job["spec"], f"{name}-0.{service['metadata']['name']}")


def test_jobset() -> None:
    from kubeflow_trainer_api.models import JobsetV1alpha2JobSet

    (jobset,) = manifests("jobset.yaml")
    model = JobsetV1alpha2JobSet.from_dict(jobset)
    assert model is not None
    assert model.to_dict() == jobset  # so there is no field that it does not know
    (ranks,) = jobset["spec"]["replicatedJobs"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": jobset["metadata"], **ranks["template"]}
    validate(job)
    name = jobset["metadata"]["name"]
    check_job(job["spec"], f"{name}-{ranks['name']}-0-0.{name}")


def test_mpijob() -> None:
    (mpijob,) = manifests("mpijob.yaml")
    assert (mpijob["apiVersion"], mpijob["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = mpijob["spec"]
    check_fields(spec, MPIJOB)
    check_fields(spec["runPolicy"], RUN_POLICY)
    assert spec["mpiReplicaSpecs"].keys() == {"Launcher", "Worker"}
    for replicas in spec["mpiReplicaSpecs"].values():
        check_fields(replicas, REPLICAS)
        validate({"apiVersion": "v1", "kind": "Pod", "metadata": mpijob["metadata"], **replicas["template"]})
    (container,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    mpirun, *words = container["command"]
    assert mpirun == "mpirun"
    assert int(words[words.index("-n") + 1]) == spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]


def check_fields(found: dict[str, Any], known: dict[str, Any]) -> None:
    for name, value in found.items():
        expected = known[name]
        assert value in expected if isinstance(expected, tuple) else type(value) is expected


@pytest.mark.parametrize("path", [("spec", "paralelism"), ("spec", "template", "spec", "subdomian")])
def test_a_mistake_is_found(path: tuple[str, ...]) -> None:
    """The schemas are strict: a field with a wrong name is refused."""
    from kubernetes_validate import ValidationError

    job = inner = copy.deepcopy(manifests("job.yaml")[1])
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = "1"
    with pytest.raises(ValidationError):
        validate(job)
