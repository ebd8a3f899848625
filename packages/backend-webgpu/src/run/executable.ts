import type { LifetimePlace } from '@shardwise/core/base';
import {
  BackendError,
  type DeviceBuffer,
  type Executable,
  IndexError,
  type RunOptions,
} from '@shardwise/core/spec';
import { alignmentBytes } from '../device/limits.ts';
import { CHECK_WORDS } from '../kernels/check-indices.ts';
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
import { type Bounds, boundsOf } from '../program/bounds.ts';
import { parameterCount } from '../emit/kernel-text.ts';
import { workOf } from '../plan/kernel-work.ts';
import { checkBytes, placeTemporaries } from './value-memory.ts';
import { KernelBindings } from './kernel-bindings.ts';
import { taskOf } from '../plan/task-of.ts';
import { bytesOf } from '../program/values.ts';
import { type KernelPlan, guardOf } from '../plan/kernel-plan.ts';

/** The parameters of each dispatch begin at a multiple of this number of bytes. */
const PARAMETER_ALIGNMENT = 256;
/** For how many sets of buffers the dispatches are kept. Steps usually alternate between two. */
const MAX_BOUND = 4;

/** The dispatches for one set of buffers. */
interface Bound extends BoundProgram {
  readonly key: readonly (GPUBuffer | number)[];
  /** The most work of a submission at the time when this was made. */
  readonly workLimit: number;
  readonly parts: readonly number[];
  /** Where the inputs lie that a run copies side by side. */
  readonly gathered: readonly Located[];
  /** Settles when the device has accepted the bind groups. */
  readonly accepted: Promise<void>;
  /** The memory on the device for the parameters of the dispatches. Sets of buffers share it. */
  readonly parameterBuffer: GPUBuffer;
  /** Whether a run has used these dispatches. */
  hasRun: boolean;
}

/** What a run that was handed over still waits for. */
interface Submitted {
  /** The words of checks. Undefined if the device does not have to check any indices. */
  readonly verdict: Promise<Int32Array> | undefined;
  /** Settles when the device has accepted the commands. */
  readonly accepted: Promise<void> | undefined;
}

export class GpuExecutable implements Executable {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #plan: KernelPlan;
  readonly #scratchPlaces: ReadonlyMap<number, LifetimePlace>;
  /** The bytes of the pages with temporary values. */
  readonly #pageBytes: readonly number[];
  readonly #faults: GpuBuffer | undefined;
  /** The buffer in which inputs of one word lie side by side. */
  readonly #gathered: GpuBuffer | undefined;
  /** The bindings of each slice of each kernel. */
  readonly #bindings: readonly (readonly KernelBindings[])[];
  #parameters: GPUBuffer | undefined;
  /** The work of each kernel. */
  readonly #work: readonly number[];
  /** The bytes from the parameters of one dispatch to those of the next. */
  readonly #parameterStride: number;
  readonly #inputBytes: readonly number[];
  readonly #outputBytes: readonly number[];
  /** The dispatches for the last sets of buffers, the last one first. */
  #bound: readonly Bound[] = [];
  /** The parameters that are on the device. */
  #written: BoundProgram['parameters'] | undefined;
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
    const { bindingBytes } = plan;
    this.#bindings = kernels.map((kernel) =>
      rangesOf(kernel, 1).map(
        () =>
          new KernelBindings({
            session,
            values,
            kernel,
            guard: guardOf(plan, kernel),
            bindingBytes,
          }),
      ),
    );
    for (const kernel of kernels) checkBytes(values, kernel, memory.largestBytes);
    const most = Math.max(
      0,
      ...kernels.map((kernel) => parameterCount(kernel, guardOf(plan, kernel))),
    );
    this.#parameterStride = Math.ceil((most * 4) / PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT;
    const { places, pageBytes } = placeTemporaries(plan, memory.largestBytes);
    this.#scratchPlaces = places;
    this.#pageBytes = pageBytes;
    this.#gathered = plan.gathered.size === 0 ? undefined : memory.alloc(4 * plan.gathered.size);
    this.#faults = plan.faults === undefined ? undefined : memory.alloc(bytesOfValue(plan.faults));
    memory.scratch.reserve(pageBytes);
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

  /** Compiles the kernels for a run with these buffers. */
  async compile(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Promise<void> {
    await compiling(this.#bind(inputs, outputs));
  }

  /**
   * Submits a run. The device reports late what it refuses, so the first run of a binding waits until the device has
   * accepted it.
   */
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
   * Hands a run over to the device. This takes several submissions if one would take too long, or if the host is to
   * hear of a check of indices before the rest is done. Returns the words of checks.
   */
  #encode(
    bound: Bound,
    proven: ReadonlySet<number>,
    onComputed: RunOptions['onComputed'],
  ): Promise<Int32Array> | undefined {
    const { device, workLimit } = this.#session;
    if (this.#written !== bound.parameters)
      device.queue.writeBuffer(bound.parameterBuffer, 0, bound.parameters);
    this.#written = bound.parameters;
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

  /**
   * Reads the words of checks. The read is submitted before anything is awaited, because the next run overwrites these
   * words.
   */
  async #readFaults({ memory, byteLength }: GpuBuffer): Promise<Int32Array> {
    const bytes = await this.#session.readNow(memory, 0, new Uint8Array(byteLength));
    return new Int32Array(bytes.buffer, 0, byteLength / 4);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const freed = this.#session.inOrder(() => {
      this.#memory.scratch.release(this.#pageBytes);
      if (this.#faults !== undefined) this.#memory.free(this.#faults);
      if (this.#gathered !== undefined) this.#memory.free(this.#gathered);
      this.#parameters?.destroy();
    });
    if (freed instanceof Promise) freed.catch(this.#session.fail);
  }

  /**
   * The checks that cannot fail, because the host wrote the indices or their bounds follow from sizes. The device skips
   * them, and the host need not wait for them.
   */
  #provenChecks(inputs: readonly GpuBuffer[]): ReadonlySet<number> {
    const { values, checks } = this.#plan;
    const proven = new Set<number>();
    for (const [number, { index, size }] of checks.entries()) {
      const bounds = boundsOf(values, index, (input) => inputs[input]?.knownBounds());
      if (bounds !== undefined && bounds.least >= 0 && bounds.greatest < size) proven.add(number);
    }
    return proven;
  }

  /**
   * Notes that the program overwrites what the host wrote to these buffers. For some of the new values, bounds are
   * known as well.
   */
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

  /** The dispatches for these buffers. They are kept, because a program usually runs with the same buffers again. */
  #bind(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Bound {
    const { workLimit } = this.#session;
    const pages = this.#memory.scratch.pages(this.#pageBytes.length);
    const key = [...inputs, ...outputs, ...pages].flatMap((buffer) => [
      buffer.memory,
      buffer.byteOffset,
    ]);
    const known = this.#bound.find(
      (bound) => bound.key.length === key.length && bound.key.every((item, i) => item === key[i]),
    );
    if (known?.workLimit === workLimit) return this.#keep(known, known);
    const parts = this.#work.map((work) => Math.ceil(work / workLimit));
    if (known !== undefined && parts.every((count, kernel) => count === known.parts[kernel]))
      return this.#keep({ ...known, workLimit }, known);
    const stride = this.#parameterStride;
    const { kernels, values } = this.#plan;
    const ranges = kernels.map((kernel, position) => rangesOf(kernel, parts[position] ?? 1));
    const parameterBuffer = this.#parametersOf(
      ranges.flat().reduce((sum, { dispatches }) => sum + dispatches.length, 0),
    );
    const [first] = kernels;
    if (first === undefined) throw new RangeError('a program without kernels has no bindings');
    const task = taskOf(values, first, kernels.length - 1);
    const { result, accepted } = this.#session.checked(task, () =>
      bindProgram({
        plan: this.#plan,
        work: this.#work,
        ranges,
        bindings: this.#bindings,
        locate: (id) => this.#locate(id, { inputs, outputs, pages }),
        parameterBuffer,
        stride,
      }),
    );
    // The first run awaits `accepted`. A run that fails earlier does not, and then nothing else handles the rejection.
    accepted.catch(this.#session.fail);
    // These are places in memory, and not buffers: another buffer may later have the same memory.
    const gathered = [...this.#plan.gathered.keys()].flatMap((id) => {
      const input = inputs[id];
      return input === undefined ? [] : [{ memory: input.memory, byteOffset: input.byteOffset }];
    });
    const made = { ...result, key, workLimit, parts, gathered, parameterBuffer, accepted };
    return this.#keep({ ...made, hasRun: false }, known);
  }

  /** Puts dispatches before all others that are kept, and forgets those that they replace, or the oldest. */
  #keep(bound: Bound, replaced: Bound | undefined): Bound {
    if (this.#bound[0] !== bound) {
      const others = this.#bound.filter((other) => other !== replaced);
      this.#bound = [bound, ...others.slice(0, MAX_BOUND - 1)];
    }
    return bound;
  }

  /** A buffer of the device for the parameters of this many dispatches. */
  #parametersOf(dispatches: number): GPUBuffer {
    const size = dispatches * this.#parameterStride;
    if (this.#parameters !== undefined && this.#parameters.size >= size) return this.#parameters;
    if (this.#parameters !== undefined) this.#session.destroy(this.#parameters);
    // Their bind groups have the old buffer.
    this.#bound = [];
    const usage = bufferUsage.uniform | bufferUsage.copyDestination;
    return (this.#parameters = this.#session.device.createBuffer({ size, usage }));
  }

  #locate(
    id: number,
    {
      inputs,
      outputs,
      pages,
    }: Readonly<Record<'inputs' | 'outputs' | 'pages', readonly GpuBuffer[]>>,
  ): Located {
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
            : pages[place?.page ?? -1];
    if (buffer === undefined) throw new RangeError(`value ${id} has no memory`);
    const inside = place !== undefined && input === undefined && output < 0 ? place.byteOffset : 0;
    return { memory: buffer.memory, byteOffset: buffer.byteOffset + inside };
  }

  #throwFault(words: Int32Array): void {
    if (words[0] === 0) return;
    for (const [number, { op, instruction, size }] of this.#plan.checks.entries()) {
      const first = 1 + number * CHECK_WORDS;
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

/** Waits for kernels that are still being compiled, in parallel. Undefined if all of them are compiled. */
function compiling({ dispatches }: Bound): Promise<unknown> | undefined {
  const missing = dispatches.filter(({ pipeline }) => pipeline.compiled === undefined);
  if (missing.length === 0) return undefined;
  return Promise.all(missing.map(({ pipeline }) => pipeline.ready));
}

async function bothAccepted(first: Promise<void>, second: Promise<void>): Promise<void> {
  await Promise.all([first, second]);
}

/** Calls `onComputed` once, with the total time of all passes of a run, when the last of them is known. */
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
