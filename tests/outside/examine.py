"""Lets REDbot examine a resource live, with the requests of its own that it makes for it: with and without compression,
for a part, and conditionally. Usage: examine.py URL, prints the status, and then a line for each note: its level, its
name, its summary, with tabs between them."""

import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource

parser = ConfigParser()
# Our server is on this machine, which REDbot leaves alone unless it is told.
parser.read_dict({"redbot": {"enable_local_access": "True"}})
config = parser["redbot"]


def tell(notes):
    for note in notes:
        summary = str(note.summary).replace("\n", " ")
        print("\t".join([note.level.name, type(note).__name__, summary]))
        tell(note.subnotes)


resource = HttpResource(config)
resource.set_request(sys.argv[1])
resource.on("check_done", thor.stop)
resource.check()
thor.run()
if resource.fetch_error is not None:
    sys.exit(resource.fetch_error.desc)
print(resource.response.status_code_str)
tell(resource.response.notes)
for check in resource.subreqs.values():
    if check.fetch_started:
        tell(check.response.notes)
