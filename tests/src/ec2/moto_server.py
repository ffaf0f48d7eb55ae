"""moto's server, without two searches that cost it most of its time.

Tags of a resource are looked up, where moto matches patterns with every tag of the account. The service that a host
name belongs to is remembered, where moto lists its own folder under a lock for every request.
"""

import functools
import sys

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main


def get_tags(self):
    tags = self.ec2_backend.tags.get(self.id) if self.id else None
    if not tags:
        return []
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "")
    return [
        {"resource_id": self.id, "key": key, "value": value, "resource_type": kind}
        for key, value in tags.copy().items()
    ]


TaggedEC2Resource.get_tags = get_tags
DomainDispatcherApplication.get_backend_for_host = functools.cache(DomainDispatcherApplication.get_backend_for_host)

sys.exit(main())
