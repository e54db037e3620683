"""Has REDbot examine a resource with requests of its own: with and without compression, for a range, and conditional.

Usage: examine.py URL. Prints the status, then a line for each note: level, name and summary, separated by tabs."""

import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource

parser = ConfigParser()
# By default, REDbot refuses to access servers on its own machine, such as ours.
parser.read_dict({"redbot": {"enable_local_access": "True"}})
config = parser["redbot"]


def print_notes(notes):
    for note in notes:
        summary = str(note.summary).replace("\n", " ")
        print("\t".join([note.level.name, type(note).__name__, summary]))
        print_notes(note.subnotes)


resource = HttpResource(config)
resource.set_request(sys.argv[1])
resource.on("check_done", thor.stop)
resource.check()
thor.run()
if resource.fetch_error is not None:
    sys.exit(resource.fetch_error.desc)
print(resource.response.status_code_str)
print_notes(resource.response.notes)
for check in resource.subreqs.values():
    if check.fetch_started:
        print_notes(check.response.notes)
