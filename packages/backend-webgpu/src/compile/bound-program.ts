import type { GpuSession, Pipeline } from '../device/gpu-session.ts';
import type { Task } from '../device/task.ts';
import { divide } from './divide.ts';
import { kernelText, slotsOf } from './kernel-text.ts';
import { guardOf, type KernelPlan } from './plan-kernels.ts';
import { taskOf } from './task-of.ts';

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
  /** Of each kernel. */
  readonly work: readonly number[];
  /** Into how many dispatches each kernel is divided. */
  readonly parts: readonly number[];
  readonly locate: (id: number) => Located;
  /** Where the device has the parameters, and bytes between those of one dispatch and of the next. */
  readonly parameterBuffer: GPUBuffer;
  readonly stride: number;
}

/** Finds pipelines and makes bindings for the buffers of a run. */
export function bindProgram(
  session: GpuSession,
  { plan, work, parts, locate, parameterBuffer, stride }: BindOptions,
): BoundProgram {
  const { values, kernels } = plan;
  const count = parts.reduce((sum, of) => sum + of, 0);
  const parameters = new Uint32Array((count * stride) / 4);
  const dispatches: Dispatch[] = [];
  for (const [position, kernel] of kernels.entries()) {
    const located = slotsOf(kernel, guardOf(plan, kernel)).map(locate);
    const buffers = [...new Set(located.map(({ memory }) => memory))];
    const arrays = located.map(({ memory }) => buffers.indexOf(memory));
    const text = kernelText(values, kernel, arrays, guardOf(plan, kernel));
    const pipeline = session.pipeline(text, buffers.length, kernel.label);
    const resources = [
      { buffer: parameterBuffer, offset: 0, size: stride },
      ...buffers.map((buffer) => ({ buffer })),
    ];
    const bindings = session.device.createBindGroup({
      label: kernel.label,
      layout: session.layout(buffers.length),
      entries: resources.map((resource, binding) => ({ binding, resource })),
    });
    const numbers = [...located.map(({ byteOffset }) => byteOffset / 4), ...kernel.numbers];
    const ranges = divide(kernel.groups, parts[position] ?? 1);
    const share = (work[position] ?? 0) / ranges.length;
    const task = taskOf(values, kernel);
    for (const { first, groups } of ranges) {
      const parameterOffset = dispatches.length * stride;
      parameters.set([...numbers, ...first, ...kernel.groups], parameterOffset / 4);
      const { check } = kernel;
      dispatches.push({ pipeline, bindings, parameterOffset, groups, check, work: share, task });
    }
  }
  return { dispatches, parameters };
}

/** Dispatches that are submitted together. */
export interface Stretch {
  readonly dispatches: readonly Dispatch[];
  readonly work: number;
  readonly task: Task;
  /** Behind it the words of checks are complete. */
  readonly decides: boolean;
}

/** Cuts dispatches where they are more than a submission may have, and behind the last check. */
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
