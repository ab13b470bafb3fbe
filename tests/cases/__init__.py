"""Troubles that users of such systems met, and the tests that keep them away: `make cases` prints one beside the other.

A case stands in a list of this folder (NAME.yaml: id and what is demanded), and a test says which it is about:

    @pytest.mark.case("R1", "R3")

A case that applies and has no test fails the target; so does a marker that names a case which stands in no list. To add
a list of one's own, put another NAME.yaml here.
"""
