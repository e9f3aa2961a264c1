"""Service limits that neither the API models nor the emulators enforce, with the error that AWS returns above each."""

CODE = "ValidationException"
# Maximum characters in the value of a standard-tier parameter.
PARAMETER = 4096
# Maximum bytes of all entries of one PutEvents request.
ENTRIES = 256 * 1024


def exceeded(service: str, operation: str, parameters: dict) -> list[str]:
    if (service, operation) == ("ssm", "PutParameter"):
        if parameters.get("Tier", "Standard") == "Standard" and len(parameters.get("Value", "")) > PARAMETER:
            return [
                f"{CODE}: Standard tier parameters support a maximum parameter value of {PARAMETER} characters. To create a larger "
                "parameter value, upgrade the parameter to use the advanced-parameter tier."
            ]
    if (service, operation) == ("events", "PutEvents"):
        members = ("Source", "DetailType", "Detail")
        texts = [entry.get(member, "") for entry in parameters.get("Entries", []) for member in members]
        if sum(len(text.encode()) for text in texts) > ENTRIES:
            return [f"{CODE}: Total size of the entries in the request is over the limit."]
    return []
