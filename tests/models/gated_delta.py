# SPDX-License-Identifier: MIT
"""The gated delta rule of recurrent layers, Mamba-2's, and the norms of their outputs, in the type of their arguments;
those of transformers compute in float32."""
import sys

import torch


def rule(query, key, value, g, beta, **_):
    """query, key [batch][tokens][heads][d_k], normed here; value [batch][tokens][states][d_v]; beta [batch][tokens][states], g
    too or [batch][tokens][states][d_k]"""
    g = g if g.dim() == 4 else g[..., None]
    groups = value.shape[2] // key.shape[2]
    q, k = ((x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(groups, 2) for x in (query, key))
    state, out = value.new_zeros(*value.shape[:1], *value.shape[2:3], k.shape[-1], value.shape[-1]), []
    for t in range(value.shape[1]):
        state = state * g[:, t, :, :, None].exp()
        held = torch.einsum("bhkv,bhk->bhv", state, k[:, t])
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * (value[:, t] - held))
        out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]) / k.shape[-1] ** 0.5)
    return torch.stack(out, 1), state


def norm(self, hidden_states, gate):
    """forward() of a class RMSNormGated"""
    rms = (hidden_states.square().mean(-1, keepdim=True) + self.variance_epsilon).sqrt()
    act = torch.sigmoid if getattr(self, "activation", "silu") == "sigmoid" else torch.nn.functional.silu
    return self.weight * hidden_states / rms * act(gate)


def forget_gate(self, hidden_states):
    """forward() of KimiLinearForgetGate"""
    g = (self.f_b_proj(self.f_a_proj(hidden_states)) + self.dt_bias).unflatten(-1, (-1, self.head_dim))
    return -self.A_log.exp() * torch.nn.functional.softplus(g)


def scan(hidden_states, dt, A, B, C, chunk_size=0, D=None, dt_bias=0, initial_states=None, dt_limit=(0, float("inf")),
         return_final_states=False, **_):
    """mamba2_chunk_scan(): hidden_states [batch][tokens][heads][head_dim], dt [batch][tokens][heads], A, D, dt_bias [heads],
    B, C [batch][tokens][groups][state_size]"""
    dt = torch.nn.functional.softplus(dt + dt_bias).clamp(*dt_limit)
    groups, out = hidden_states.shape[2] // B.shape[2], []
    state = hidden_states.new_zeros(*hidden_states.shape[:1], *hidden_states.shape[2:], B.shape[-1])
    state = state if initial_states is None else initial_states.to(state)
    for t in range(dt.shape[1]):
        k, q = (rows[:, t].repeat_interleave(groups, 1) for rows in (B, C))
        u = hidden_states[:, t] * dt[:, t, :, None]
        state = state * (A * dt[:, t])[..., None, None].exp() + u[..., None] * k[:, :, None]
        out.append((state * q[:, :, None]).sum(-1) + hidden_states[:, t] * D[:, None])
    return (torch.stack(out, 1), state) if return_final_states else torch.stack(out, 1)


def norm_of_groups(self, hidden_states, gate):
    """forward() of MambaRMSNormGated"""
    gated = (hidden_states * torch.nn.functional.silu(gate)).unflatten(-1, (-1, self.group_size))
    rms = (gated.square().mean(-1, keepdim=True) + self.variance_epsilon).sqrt()
    return self.weight * (gated / rms).flatten(-2)


def use(model):
    """A model of transformers computes by the functions above."""
    module = sys.modules[type(model).__module__]
    if hasattr(module, "mamba2_chunk_scan"):
        module.mamba2_chunk_scan = scan
        module.MambaRMSNormGated.forward = norm_of_groups
    rules = [name for name in ("torch_chunk_gated_delta_rule", "chunk_kimi_delta_attention") if hasattr(module, name)]
    if rules:
        setattr(module, rules[0], rule)
        if hasattr(module, "KimiLinearForgetGate"):
            module.KimiLinearForgetGate.forward = forget_gate
        for name, kind in vars(module).items():
            if name.endswith("RMSNormGated"):
                kind.forward = norm
    return model
