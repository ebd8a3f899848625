import {
  BackendError,
  type DeviceBuffer,
  type Executable,
  IndexError,
  type LifetimePlace,
  type RunOptions,
} from '@shardwise/core/spec';
import { alignmentBytes } from '../limits.ts';
import { checkWords } from '../kernels/check-indices.ts';
import { bufferUsage } from '../device/gpu-constants.ts';
import type { GpuBuffer } from '../device/gpu-buffer.ts';
import type { GpuMemory } from '../device/gpu-memory.ts';
import type { GpuSession } from '../device/gpu-session.ts';
import {
  bindProgram,
  type BoundProgram,
  type Located,
  rangesOf,
  stretchesOf,
} from './bound-program.ts';
import { type Bounds, boundsOf } from './bounds.ts';
import { parameterCount } from './kernel-text.ts';
import { workOf } from './kernel-work.ts';
import { placeTemporaries } from './place-temporaries.ts';
import { guardOf } from './guard-of.ts';
import type { KernelPlan } from './kernel-plan.ts';
import { taskOf } from './task-of.ts';
import { bytesOf } from './values.ts';
import { checkBytes } from './check-bytes.ts';

/** Parameters of one dispatch begin at a multiple of this. */
const parameterAlignment = 256;

/** The dispatches for some buffers. */
interface Bound extends BoundProgram {
  readonly key: readonly (GPUBuffer | number)[];
  /** Work of a submission when it was made, at most. */
  readonly workLimit: number;
  readonly parts: readonly number[];
  /** Where the inputs are that are copied side by side. */
  readonly gathered: readonly Located[];
  /** Settles when the device has accepted its bindings. */
  readonly accepted: Promise<void>;
  /** Whether it has run. */
  hasRun: boolean;
}

/** What was handed over for a run. */
interface Submitted {
  /** The words of checks, where the device has to look at indices. */
  readonly verdict: Promise<Int32Array> | undefined;
  /** Settles when the device has accepted the commands. */
  readonly accepted: Promise<void> | undefined;
}

export class GpuExecutable implements Executable {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #plan: KernelPlan;
  readonly #scratch: readonly GpuBuffer[];
  readonly #scratchPlaces: ReadonlyMap<number, LifetimePlace>;
  readonly #faults: GpuBuffer | undefined;
  /** Inputs of a word each, side by side. */
  readonly #gathered: GpuBuffer | undefined;
  #parameters: GPUBuffer | undefined;
  /** Work of each kernel. */
  readonly #work: readonly number[];
  /** Between the parameters of one dispatch and those of the next. */
  readonly #parameterStride: number;
  readonly #inputBytes: readonly number[];
  readonly #outputBytes: readonly number[];
  #bound: Bound | undefined;
  /** Those whose parameters the device has. */
  #written: Bound | undefined;
  #disposed = false;

  constructor(session: GpuSession, memory: GpuMemory, plan: KernelPlan) {
    this.#session = session;
    this.#memory = memory;
    this.#plan = plan;
    const { values, kernels } = plan;
    const bytesOfValue = (id: number): number => bytesOf(values.type(id));
    this.#inputBytes = Array.from({ length: values.inputCount }, (_, id) => bytesOfValue(id));
    this.#outputBytes = plan.outputs.map(bytesOfValue);
    this.#work = kernels.map((kernel) => workOf(values, kernel));
    for (const kernel of kernels) checkBytes(values, kernel, memory.largestBytes);
    const most = Math.max(
      0,
      ...kernels.map((kernel) => parameterCount(kernel, guardOf(plan, kernel))),
    );
    this.#parameterStride = Math.ceil((most * 4) / parameterAlignment) * parameterAlignment;
    const { places, pageBytes } = placeTemporaries(
      plan,
      Math.min(plan.bindingBytes, memory.largestBytes),
    );
    this.#scratchPlaces = places;
    this.#scratch = pageBytes.map((byteLength) => memory.alloc(byteLength));
    this.#gathered = plan.gathered.size === 0 ? undefined : memory.alloc(4 * plan.gathered.size);
    this.#faults = plan.faults === undefined ? undefined : memory.alloc(bytesOfValue(plan.faults));
  }

  async run(
    inputs: readonly DeviceBuffer[],
    outputs: readonly DeviceBuffer[],
    { onComputed }: RunOptions = {},
  ): Promise<void> {
    if (this.#disposed) throw disposedError();
    const { kernels } = this.#plan;
    const ownInputs = this.#own('input', inputs, this.#inputBytes);
    const ownOutputs = this.#own('output', outputs, this.#outputBytes);
    this.#session.check();
    if (kernels.length === 0) return;
    const proven = this.#provenChecks(ownInputs);
    const bound = this.#bind(ownInputs, ownOutputs);
    this.#noteBounds(ownInputs, ownOutputs);
    const { verdict, accepted } = await this.#session.inOrder(
      () => this.#submit(bound, proven, onComputed),
      compiling(bound),
    );
    const [words] = await Promise.all([verdict, accepted]);
    if (words !== undefined) this.#throwFault(words);
    await this.#session.room();
  }

  /** The first run of a binding is looked at by the device before the run ends: it says late what it refuses. */
  #submit(
    bound: Bound,
    proven: ReadonlySet<number>,
    onComputed: RunOptions['onComputed'],
  ): Submitted {
    const [first] = bound.dispatches;
    if (bound.hasRun || first === undefined)
      return { verdict: this.#encode(bound, proven, onComputed), accepted: undefined };
    bound.hasRun = true;
    const task = { ...first.task, others: bound.dispatches.length - 1 };
    const encode = (): Promise<Int32Array> | undefined => this.#encode(bound, proven, onComputed);
    const { result: verdict, accepted } = this.#session.checked(task, encode);
    return { verdict, accepted: bothAccepted(bound.accepted, accepted) };
  }

  /**
   * Hands a run over: in one go, or in several where one would take too long or a check of indices is to be heard of before the rest is
   * done. Gives the words of checks.
   */
  #encode(
    bound: Bound,
    proven: ReadonlySet<number>,
    onComputed: RunOptions['onComputed'],
  ): Promise<Int32Array> | undefined {
    const { device, workLimit } = this.#session;
    if (this.#written !== bound) {
      if (this.#parameters !== undefined)
        device.queue.writeBuffer(this.#parameters, 0, bound.parameters);
      this.#written = bound;
    }
    const needed = bound.dispatches.filter(
      ({ check }) => check === undefined || !proven.has(check),
    );
    const stretches = stretchesOf(needed, workLimit);
    const isStep = this.#plan.inPlace.size > 0;
    const onPass = inParts(onComputed, stretches.length);
    let verdict: Promise<Int32Array> | undefined;
    for (const [position, { dispatches, work, task, decides }] of stretches.entries()) {
      const encoder = device.createCommandEncoder();
      if (position === 0 && this.#faults !== undefined) encoder.clearBuffer(this.#faults.memory);
      if (position === 0) this.#gather(encoder, bound);
      const pass = this.#session.beginPass(encoder, onPass);
      for (const { pipeline, bindings, parameterOffset, groups } of dispatches) {
        if (pipeline.compiled === undefined) throw new RangeError('a kernel is not compiled');
        pass.setPipeline(pipeline.compiled);
        pass.setBindGroup(0, bindings, [parameterOffset]);
        pass.dispatchWorkgroups(...groups);
      }
      pass.end();
      const isLast = position === stretches.length - 1;
      this.#session.submit(encoder.finish(), { isStep: isStep && isLast, work, task });
      if (decides && this.#faults !== undefined) verdict = this.#readFaults(this.#faults);
    }
    return verdict;
  }

  #gather(encoder: GPUCommandEncoder, { gathered }: Bound): void {
    const target = this.#gathered;
    if (target === undefined) return;
    for (const [position, { memory, byteOffset }] of gathered.entries())
      encoder.copyBufferToBuffer(memory, byteOffset, target.memory, 4 * position, 4);
  }

  /** Asked for before anything is awaited: the next run writes these words anew. */
  async #readFaults({ memory, byteLength }: GpuBuffer): Promise<Int32Array> {
    const bytes = await this.#session.readNow(memory, 0, new Uint8Array(byteLength));
    return new Int32Array(bytes.buffer, 0, byteLength / 4);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const freed = this.#session.inOrder(() => {
      for (const page of this.#scratch) this.#memory.free(page);
      if (this.#faults !== undefined) this.#memory.free(this.#faults);
      if (this.#gathered !== undefined) this.#memory.free(this.#gathered);
      this.#parameters?.destroy();
    });
    if (freed instanceof Promise) freed.catch(this.#session.fail);
  }

  /** Checks of indices that the host wrote, or whose bounds follow from sizes: the device need not look at them, nor the host wait. */
  #provenChecks(inputs: readonly GpuBuffer[]): ReadonlySet<number> {
    const { values, checks } = this.#plan;
    const proven = new Set<number>();
    for (const [number, { index, size }] of checks.entries()) {
      const bounds = boundsOf(values, index, (input) => inputs[input]?.knownBounds());
      if (bounds !== undefined && bounds.least >= 0 && bounds.greatest < size) proven.add(number);
    }
    return proven;
  }

  /** What the program writes is no longer what the host wrote; of some of it bounds are known all the same. */
  #noteBounds(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): void {
    const { values, outputs: ids, inPlace } = this.#plan;
    const written: [buffer: GpuBuffer | undefined, bounds: Bounds | undefined][] = [
      ...ids.map((id, output) => [id, outputs[output]] as const),
      ...[...inPlace].map(([id, input]) => [id, inputs[input]] as const),
    ].map(([id, buffer]) => [
      buffer,
      boundsOf(values, id, (input) => inputs[input]?.knownBounds()),
    ]);
    for (const [buffer, bounds] of written) buffer?.noteBounds(bounds);
  }

  /** Programs usually run with the same buffers again: their bindings are kept. */
  #bind(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Bound {
    const { workLimit } = this.#session;
    const key = [...inputs, ...outputs].flatMap((buffer) => [buffer.memory, buffer.byteOffset]);
    const known = this.#bound;
    const isKnown =
      known?.key.length === key.length && known.key.every((item, i) => item === key[i]);
    if (isKnown && known.workLimit === workLimit) return known;
    const parts = this.#work.map((work) => Math.ceil(work / workLimit));
    if (isKnown && parts.every((count, kernel) => count === known.parts[kernel])) {
      this.#bound = { ...known, workLimit };
      if (this.#written === known) this.#written = this.#bound;
      return this.#bound;
    }
    const stride = this.#parameterStride;
    const { kernels, values, bindingBytes } = this.#plan;
    const ranges = kernels.map((kernel, position) => rangesOf(kernel, parts[position] ?? 1));
    const parameterBuffer = this.#parametersOf(
      ranges.flat().reduce((sum, { dispatches }) => sum + dispatches.length, 0),
    );
    const [first] = kernels;
    if (first === undefined) throw new RangeError('a program without kernels has no bindings');
    const task = taskOf(values, first, kernels.length - 1);
    const { result, accepted } = this.#session.checked(task, () =>
      bindProgram(this.#session, {
        plan: this.#plan,
        work: this.#work,
        ranges,
        bindingBytes,
        locate: (id) => this.#locate(id, inputs, outputs),
        parameterBuffer,
        stride,
      }),
    );
    // The first run waits for it; one that fails before does not.
    accepted.catch(this.#session.fail);
    const gathered = [...this.#plan.gathered.keys()].flatMap((id) => inputs[id] ?? []);
    this.#bound = { ...result, key, workLimit, parts, gathered, accepted, hasRun: false };
    return this.#bound;
  }

  /** Memory of the device for the parameters of so many dispatches. */
  #parametersOf(dispatches: number): GPUBuffer {
    const size = dispatches * this.#parameterStride;
    if (this.#parameters !== undefined && this.#parameters.size >= size) return this.#parameters;
    if (this.#parameters !== undefined) this.#session.destroy(this.#parameters);
    const usage = bufferUsage.uniform | bufferUsage.copyDestination;
    return (this.#parameters = this.#session.device.createBuffer({ size, usage }));
  }

  #locate(id: number, inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Located {
    const { inPlace, faults, outputs: outputIds, values, gathered } = this.#plan;
    const at = gathered.get(id);
    if (at !== undefined && this.#gathered !== undefined)
      return { memory: this.#gathered.memory, byteOffset: 4 * at };
    const input = id < values.inputCount ? id : inPlace.get(id);
    const output = outputIds.indexOf(id);
    const place = this.#scratchPlaces.get(id);
    const buffer =
      input !== undefined
        ? inputs[input]
        : output >= 0
          ? outputs[output]
          : id === faults
            ? this.#faults
            : this.#scratch[place?.page ?? -1];
    if (buffer === undefined) throw new RangeError(`value ${id} has no memory`);
    const inside = place !== undefined && input === undefined && output < 0 ? place.byteOffset : 0;
    return { memory: buffer.memory, byteOffset: buffer.byteOffset + inside };
  }

  #throwFault(words: Int32Array): void {
    if (words[0] === 0) return;
    for (const [number, { op, instruction, size }] of this.#plan.checks.entries()) {
      const first = 1 + number * checkWords;
      const element = (words[first] ?? 0) - 1;
      if (element < 0) continue;
      throw IndexError.ofRun({
        op,
        instruction,
        index: words[first + 1] ?? 0,
        element,
        size,
        updated: false,
      });
    }
  }

  #own(
    role: 'input' | 'output',
    buffers: readonly DeviceBuffer[],
    sizes: readonly number[],
  ): GpuBuffer[] {
    if (buffers.length !== sizes.length) {
      throw new BackendError(
        {
          asked: `to run a program with ${buffers.length} ${role}s`,
          found: `the program has ${sizes.length}`,
          todo: `Pass one buffer for each ${role}`,
        },
        { given: buffers.length, expected: sizes.length },
      );
    }
    return buffers.map((buffer, index) => {
      const own = this.#memory.own(buffer);
      const needed = sizes[index] ?? 0;
      if (own.byteLength !== needed) {
        throw new BackendError(
          {
            asked: `to run a program with a buffer of ${own.byteLength} bytes as ${role} ${index}`,
            found: `it takes ${needed} bytes`,
            todo: 'Pass a buffer of the size of the value',
          },
          { byteLength: own.byteLength, neededBytes: needed },
        );
      }
      if (own.byteOffset % alignmentBytes !== 0) {
        throw new BackendError(
          {
            asked: `to run a program with a buffer at byte ${own.byteOffset} as ${role} ${index}`,
            found: `buffers start at multiples of ${alignmentBytes} bytes`,
            todo: 'Align sub-buffers to limits.alignment',
          },
          { byteOffset: own.byteOffset, alignmentBytes },
        );
      }
      return own;
    });
  }
}

/** Kernels are compiled in parallel. Undefined where all are. */
function compiling({ dispatches }: Bound): Promise<unknown> | undefined {
  const missing = dispatches.filter(({ pipeline }) => pipeline.compiled === undefined);
  if (missing.length === 0) return undefined;
  return Promise.all(missing.map(({ pipeline }) => pipeline.ready));
}

async function bothAccepted(first: Promise<void>, second: Promise<void>): Promise<void> {
  await Promise.all([first, second]);
}

/** Tells one time of all passes of a run, once all are known. */
function inParts(onComputed: RunOptions['onComputed'], passes: number): RunOptions['onComputed'] {
  if (onComputed === undefined) return undefined;
  let [left, totalMs] = [passes, 0];
  return (durationMs) => {
    totalMs += durationMs;
    left -= 1;
    if (left === 0) onComputed(totalMs);
  };
}

function disposedError(): BackendError {
  return new BackendError({
    asked: 'to run a program',
    found: 'its executable has been disposed of',
    todo: 'Compile the program again',
  });
}
