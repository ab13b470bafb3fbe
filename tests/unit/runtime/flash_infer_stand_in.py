"""FlashInfer's paged wrapper as its documentation has it, on a CPU, one request after another."""

import math
from typing import Any

import torch

MASKED = -math.inf


class BatchPrefillWithPagedKVCacheWrapper:
    """Refuses what the real one would misread: other types, devices or lengths than are documented."""

    def __init__(self, float_workspace_buffer: torch.Tensor, kv_layout: str = "NHD", *, backend: str = "auto") -> None:
        assert float_workspace_buffer.dtype == torch.uint8
        assert not float_workspace_buffer.any()
        assert (kv_layout, backend) == ("NHD", "fa2")
        self.planned: dict[str, Any] = {}

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool = False,
        q_data_type: torch.dtype = torch.float16,
    ) -> None:
        """One request a sequence."""
        lists = (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        assert all(one.dtype == torch.int32 and one.device.type == "cpu" and one.ndim == 1 for one in lists)
        assert len(qo_indptr) == len(paged_kv_indptr) == len(paged_kv_last_page_len) + 1
        assert qo_indptr[0] == paged_kv_indptr[0] == 0
        assert paged_kv_indptr[-1] == len(paged_kv_indices)
        assert bool(((paged_kv_last_page_len >= 1) & (paged_kv_last_page_len <= page_size)).all())
        assert causal
        self.planned = {
            "rows": qo_indptr.tolist(),
            "ends": paged_kv_indptr.tolist(),
            "pages": paged_kv_indices.long(),
            "last": paged_kv_last_page_len.tolist(),
            "shape": (num_qo_heads, head_dim_qk),
            "page": (page_size, num_kv_heads, head_dim_qk),
            "dtype": q_data_type,
        }

    def run(self, q: torch.Tensor, paged_kv_cache: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """[rows, heads, head_dim], of the last layer's pages."""
        planned, (keys, values) = self.planned, paged_kv_cache
        assert q.dtype == keys.dtype == values.dtype == planned["dtype"]
        assert q.shape == (planned["rows"][-1], *planned["shape"])
        assert keys.shape[1:] == values.shape[1:] == planned["page"]
        assert keys.stride() == values.stride()
        assert keys.stride(-1) == 1
        out = torch.zeros_like(q)
        for number in range(len(planned["last"])):
            rows = slice(*planned["rows"][number : number + 2])
            pages = planned["pages"][slice(*planned["ends"][number : number + 2])]
            length = (len(pages) - 1) * planned["page"][0] + planned["last"][number]
            out[rows] = _attended(q[rows], *(one[pages].flatten(0, 1)[:length] for one in (keys, values)))
        return out


def _attended(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The mask's diagonal ends at the last query and the last key."""
    each = queries.shape[1] // keys.shape[1]
    keys, values = (one.double().repeat_interleave(each, dim=1) for one in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries.double(), keys) / math.sqrt(queries.shape[2])
    hidden = torch.ones(scores.shape[1:]).tril(len(keys) - len(queries)) == 0
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, MASKED).softmax(dim=-1), values).to(queries.dtype)
