"""A copy on a dedicated path: nobody else is on it, so all that counts is the plan, which is measured."""

from howdah.transfer.service import Service


class KindOfPath(Service):
    """The service of a dedicated path adds nothing: ``howdah.decide.dedicated`` makes the plan."""
