"""The live table of a job, for `--top` and `--attach`. Before the first look only `live` is imported.

live       what can be seen of a job, and where
watch      asks the ranks of a job what they do, while there are viewers
viewers    lets other launchers of the same user look         client     looks at the job of another launcher
tables     the table as lines         attach     `--attach`
"""
