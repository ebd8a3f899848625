import type { Pipeline } from '../device/gpu-session.ts';
import type { Task } from '../device/task.ts';
import type { Used } from './bind-windows.ts';
import { divide, type GroupRange } from './divide.ts';
import type { Kernel } from '../emit/kernel.ts';
import type { KernelBindings } from './kernel-bindings.ts';
import { slotsOf } from '../emit/kernel-text.ts';
import { taskOf } from '../plan/task-of.ts';
import { type KernelPlan, guardOf } from '../plan/kernel-plan.ts';
import { wordsOf } from '../program/values.ts';

/** The memory of a value during a run. */
export interface Located {
  readonly memory: GPUBuffer;
  readonly byteOffset: number;
}

/** A dispatch, ready to be encoded. */
export interface Dispatch {
  readonly pipeline: Pipeline;
  readonly bindings: GPUBindGroup;
  readonly parameterOffset: number;
  readonly groups: readonly [number, number, number];
  readonly check: number | undefined;
  readonly work: number;
  readonly task: Task;
}

/** The dispatches of a program for some buffers. */
export interface BoundProgram {
  readonly dispatches: readonly Dispatch[];
  readonly parameters: Uint32Array<ArrayBuffer>;
}

export interface BindOptions {
  readonly plan: KernelPlan;
  /** The work of each kernel, in the unit of `workOf`. */
  readonly work: readonly number[];
  /** For each kernel, its slices with the dispatches of each. */
  readonly ranges: readonly (readonly SliceRanges[])[];
  /** The bindings of each slice of each kernel. */
  readonly bindings: readonly (readonly KernelBindings[])[];
  readonly locate: (id: number) => Located;
  /** The uniform buffer with the parameters of all dispatches. They lie `stride` bytes apart. */
  readonly parameterBuffer: GPUBuffer;
  readonly stride: number;
}

/** A slice of the groups of a kernel, which has bindings of its own, and the dispatches into which it is divided. */
export interface SliceRanges {
  readonly slice: GroupRange;
  readonly dispatches: readonly GroupRange[];
}

/** The slices of a kernel, divided into at least `parts` dispatches together, as far as there are groups. */
export function rangesOf({ groups, slices }: Kernel, parts: number): readonly SliceRanges[] {
  const first = [0, 0, 0] as const;
  if (slices === undefined) {
    const slice = { first, groups };
    return [{ slice, dispatches: divide(slice, parts) }];
  }
  const { dim, groups: most } = slices;
  const count = Math.ceil(groups[dim] / most);
  const [x, y, z] = groups;
  return Array.from({ length: count }, (_, number) => {
    const begin = number * most;
    const own = Math.min(most, groups[dim] - begin);
    const slice: GroupRange =
      dim === 1
        ? { first: [0, begin, 0], groups: [x, own, z] }
        : { first: [0, 0, begin], groups: [x, y, own] };
    return { slice, dispatches: divide(slice, Math.ceil(parts / count)) };
  });
}

/** Makes the dispatches of a program for the buffers of a run. */
export function bindProgram({
  plan,
  work,
  ranges,
  bindings,
  locate,
  parameterBuffer,
  stride,
}: BindOptions): BoundProgram {
  const { values, kernels } = plan;
  const count = ranges.flat().reduce((sum, { dispatches }) => sum + dispatches.length, 0);
  const parameters = new Uint32Array((count * stride) / 4);
  const dispatches: Dispatch[] = [];
  for (const [position, kernel] of kernels.entries()) {
    const slots = slotsOf(kernel, guardOf(plan, kernel));
    const slices = ranges[position] ?? [];
    const own = slices.reduce((sum, of) => sum + of.dispatches.length, 0);
    const share = (work[position] ?? 0) / own;
    const task = taskOf(values, kernel);
    for (const [number, { slice, dispatches: divided }] of slices.entries()) {
      const used = slots.map((id) => usedOf(plan, kernel, id, slice, locate(id)));
      const bound = bindings[position]?.[number]?.of(used, parameterBuffer, stride);
      if (bound === undefined) throw new RangeError(`slice ${number} of a kernel has no bindings`);
      const numbers = [...bound.offsets, ...kernel.numbers];
      for (const { first, groups } of divided) {
        const parameterOffset = dispatches.length * stride;
        parameters.set([...numbers, ...first, ...kernel.groups, 0], parameterOffset / 4);
        const { check } = kernel;
        dispatches.push({ ...bound, parameterOffset, groups, check, work: share, task });
      }
    }
  }
  return { dispatches, parameters };
}

/** The bytes of a value that a slice of a kernel uses. */
function usedOf(
  { values }: KernelPlan,
  { slices }: Kernel,
  id: number,
  { first, groups }: GroupRange,
  { memory, byteOffset }: Located,
): Used {
  const end = byteOffset + 4 * wordsOf(values, id);
  const ofGroup = slices?.bytes.get(id);
  if (slices === undefined || ofGroup === undefined)
    return { memory, byteOffset, from: byteOffset, to: end };
  const from = byteOffset + first[slices.dim] * ofGroup;
  return { memory, byteOffset, from, to: Math.min(end, from + groups[slices.dim] * ofGroup) };
}

/** Dispatches that are submitted together. */
export interface Stretch {
  readonly dispatches: readonly Dispatch[];
  readonly work: number;
  readonly task: Task;
  /** Whether the words of all checks are complete after this stretch. */
  readonly decides: boolean;
}

/**
 * Cuts the dispatches so that none of the stretches has more work than a submission may have, and after the last check.
 */
export function stretchesOf(
  dispatches: readonly Dispatch[],
  workLimit: number,
): readonly Stretch[] {
  const lastCheck = dispatches.findLastIndex(({ check }) => check !== undefined);
  const stretches: Stretch[] = [];
  let [start, work] = [0, 0];
  for (const [position, dispatch] of dispatches.entries()) {
    work += dispatch.work;
    const next = dispatches[position + 1];
    const decides = position === lastCheck;
    if (next !== undefined && !decides && work + next.work <= workLimit) continue;
    const own = dispatches.slice(start, position + 1);
    const largest = own.reduce((a, b) => (b.work > a.work ? b : a), dispatch);
    const task = { ...largest.task, others: own.length - 1 };
    stretches.push({ dispatches: own, work, task, decides });
    [start, work] = [position + 1, 0];
  }
  return stretches;
}
