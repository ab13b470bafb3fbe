"""The demo's bucket, reached from inside the node's network."""

from collections.abc import Callable
from typing import TypeVar

from backstay_cluster import netns
from minio import Minio
from minio.deleteobjects import DeleteObject

from tests.e2e.story import settings
from tests.e2e.story.place import Place

Result = TypeVar("Result")


def inside(place: Place, action: Callable[[], Result]) -> Result:
    """Run `action` where the addresses of Services are reached."""
    assert place.cluster is not None
    return netns.inside(place.cluster.netns, action)


def client(place: Place) -> Minio:
    """The object storage, to be used within `inside`."""
    keys = place.storage_keys()
    address = place.kube.get("service", "minio", "--namespace=minio")["spec"]["clusterIP"]
    return Minio(f"{address}:9000", access_key=keys["accessKey"], secret_key=keys["secretKey"], secure=False)


def remove(place: Place) -> None:
    """Remove the bucket with everything in it."""
    storage = client(place)

    def empty_and_remove() -> None:
        if not storage.bucket_exists(settings.BUCKET):
            return
        listed = storage.list_objects(settings.BUCKET, recursive=True)
        found = [DeleteObject(str(one.object_name)) for one in listed]
        errors = list(storage.remove_objects(settings.BUCKET, found))
        if errors:
            raise RuntimeError(f"bucket {settings.BUCKET}: {len(errors)} objects stay; first: {errors[0].message}")
        storage.remove_bucket(settings.BUCKET)

    inside(place, empty_and_remove)
