import { dimRanges, type Mesh, reinterpret, type Tensor } from '@shardwise/core/extend';
import { redistribute } from '../layout/redistribute.ts';
import { localOp } from './local-op.ts';
import type { OpCall } from './op-call.ts';
import { propagateLayouts, type PlacedShape } from './propagate-layouts.ts';
import { axisSize } from '../layout/axis-size.ts';

/** This rank's part of a tensor, and the layout of all parts. */
export interface Placed extends PlacedShape {
  readonly local: Tensor;
}

/**
 * Runs an op on this rank's parts, after the redistributions that the rule asks for. An input that is the same on all
 * ranks of an axis is made replicate there if ranks use it differently (Megatron's f), so that its gradient is summed.
 */
export function runOp(call: OpCall, inputs: readonly Placed[], mesh: Mesh): Placed {
  const { inputs: plans, output, axes } = propagateLayouts(call, inputs, mesh.axes);
  const parts = inputs.map(({ local }, index) => {
    const plan = plans[index];
    if (plan === undefined) throw new RangeError(`no plan for input ${index}`);
    const moved = redistribute(local, plan, mesh);
    const own = new Set([...plan.to.dims.flat(), ...plan.to.partial]);
    return axes
      .filter((axis) => !own.has(axis) && axisSize(mesh.axes, axis) > 1)
      .reduce((part, axis) => reinterpret(part, axis, 'invariant', 'replicate'), moved);
  });
  const last = plans.at(-1);
  const size = last?.shape[0] ?? 0;
  const [rows = { start: 0, stop: 0 }] = dimRanges(size, last?.to.dims[0] ?? [], {}, (axis) =>
    mesh.group(axis),
  );
  return { ...output, local: localOp(call, parts, { ...rows, size }) };
}
