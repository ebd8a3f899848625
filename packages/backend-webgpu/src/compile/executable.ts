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
import type { GpuSession, Pipeline } from '../device/gpu-session.ts';
import { boundsOf } from './bounds.ts';
import { kernelText, slotsOf } from './kernel-text.ts';
import type { Kernel } from './kernel.ts';
import { placeTemporaries } from './place-temporaries.ts';
import { type KernelPlan } from './plan-kernels.ts';
import { bytesOf } from './values.ts';

/** Parameters of one kernel begin at a multiple of this. */
const parameterAlignment = 256;

/** A dispatch, ready to be encoded. */
interface Dispatch {
  readonly pipeline: Pipeline;
  readonly bindings: GPUBindGroup;
  readonly parameterOffset: number;
  readonly groups: readonly [number, number, number];
  readonly check: number | undefined;
}

/** The dispatches for some buffers. */
interface Bound {
  readonly key: readonly (GPUBuffer | number)[];
  readonly dispatches: readonly Dispatch[];
  readonly parameters: Uint32Array<ArrayBuffer>;
}

/** The memory of a value during a run. */
interface Located {
  readonly memory: GPUBuffer;
  readonly byteOffset: number;
}

export class GpuExecutable implements Executable {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #plan: KernelPlan;
  readonly #scratch: readonly GpuBuffer[];
  readonly #scratchPlaces: ReadonlyMap<number, LifetimePlace>;
  readonly #faults: GpuBuffer | undefined;
  readonly #parameters: GPUBuffer | undefined;
  /** Between the parameters of one kernel and those of the next. */
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
    const most = Math.max(
      0,
      ...kernels.map((kernel) => this.#slots(kernel).length + kernel.numbers.length),
    );
    this.#parameterStride = Math.ceil((most * 4) / parameterAlignment) * parameterAlignment;
    const { places, pageBytes } = placeTemporaries(
      plan,
      session.device.limits.maxStorageBufferBindingSize,
    );
    this.#scratchPlaces = places;
    this.#scratch = pageBytes.map((byteLength) => memory.alloc(byteLength));
    this.#faults = plan.faults === undefined ? undefined : memory.alloc(bytesOfValue(plan.faults));
    if (kernels.length > 0) {
      this.#parameters = session.device.createBuffer({
        size: kernels.length * this.#parameterStride,
        usage: bufferUsage.uniform | bufferUsage.copyDestination,
      });
    }
  }

  async run(
    inputs: readonly DeviceBuffer[],
    outputs: readonly DeviceBuffer[],
    { onComputed }: RunOptions = {},
  ): Promise<void> {
    if (this.#disposed) throw disposedError();
    const { kernels, checks } = this.#plan;
    const ownInputs = this.#own('input', inputs, this.#inputBytes);
    const ownOutputs = this.#own('output', outputs, this.#outputBytes);
    this.#session.check();
    if (kernels.length === 0) return;
    const proven = this.#provenChecks(ownInputs);
    const bound = this.#bind(ownInputs, ownOutputs);
    this.#forgetWritten(ownInputs, ownOutputs);
    const isUnsure = checks.length > proven.size;
    const submitted = this.#session.inOrder(
      () => this.#submit(bound, proven, onComputed),
      compiling(bound),
    );
    // Asked for before anything is awaited: the next run writes these words anew.
    const verdict = isUnsure ? this.#readFaults() : undefined;
    const [, words] = await Promise.all([submitted, verdict]);
    if (words !== undefined) this.#throwFault(words);
    await this.#session.room();
  }

  #submit(bound: Bound, proven: ReadonlySet<number>, onComputed: RunOptions['onComputed']): void {
    const { device } = this.#session;
    if (this.#written !== bound) {
      if (this.#parameters !== undefined)
        device.queue.writeBuffer(this.#parameters, 0, bound.parameters);
      this.#written = bound;
    }
    const encoder = device.createCommandEncoder();
    if (this.#faults !== undefined) encoder.clearBuffer(this.#faults.memory);
    const pass = this.#session.beginPass(encoder, onComputed);
    for (const { pipeline, bindings, parameterOffset, groups, check } of bound.dispatches) {
      if (check !== undefined && proven.has(check)) continue;
      if (pipeline.compiled === undefined) throw new RangeError('a kernel is not compiled');
      pass.setPipeline(pipeline.compiled);
      pass.setBindGroup(0, bindings, [parameterOffset]);
      pass.dispatchWorkgroups(...groups);
    }
    pass.end();
    this.#session.submit(encoder.finish(), this.#plan.inPlace.size > 0);
  }

  async #readFaults(): Promise<Int32Array | undefined> {
    if (this.#faults === undefined) return undefined;
    const { memory, byteLength } = this.#faults;
    const bytes = await this.#session.read(memory, 0, byteLength);
    return new Int32Array(bytes.buffer, 0, byteLength / 4);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const freed = this.#session.inOrder(() => {
      for (const page of this.#scratch) this.#memory.free(page);
      if (this.#faults !== undefined) this.#memory.free(this.#faults);
      this.#parameters?.destroy();
    });
    if (freed instanceof Promise) freed.catch(this.#session.fail);
  }

  /** Checks of indices that the host wrote, or whose bounds follow from sizes: the device need not look at them, nor the host wait. */
  #provenChecks(inputs: readonly GpuBuffer[]): ReadonlySet<number> {
    const { values, checks } = this.#plan;
    const proven = new Set<number>();
    for (const [number, { index, size }] of checks.entries()) {
      const bounds = boundsOf(values, index, (input) => inputs[input]?.writtenBounds());
      if (bounds !== undefined && bounds.least >= 0 && bounds.greatest < size) proven.add(number);
    }
    return proven;
  }

  /** What the program writes is no longer what the host wrote. */
  #forgetWritten(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): void {
    for (const output of outputs) output.forgetWritten();
    for (const input of this.#plan.inPlace.values()) inputs[input]?.forgetWritten();
  }

  /** A kernel that replaces inputs looks at the words of checks first. */
  #guard({ writes }: Kernel): number | undefined {
    const { faults, inPlace } = this.#plan;
    return faults !== undefined && writes.some((id) => inPlace.has(id)) ? faults : undefined;
  }

  #slots(kernel: Kernel): readonly number[] {
    return slotsOf(kernel, this.#guard(kernel));
  }

  /** Programs usually run with the same buffers again: their bindings are kept. */
  #bind(inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Bound {
    const key = [...inputs, ...outputs].flatMap((buffer) => [buffer.memory, buffer.byteOffset]);
    const known = this.#bound;
    if (known?.key.length === key.length && known.key.every((item, i) => item === key[i]))
      return known;
    const { values, kernels } = this.#plan;
    const stride = this.#parameterStride;
    const parameters = new Uint32Array((kernels.length * stride) / 4);
    const dispatches = kernels.map((kernel, position): Dispatch => {
      const located = this.#slots(kernel).map((id) => this.#locate(id, inputs, outputs));
      const buffers = [...new Set(located.map(({ memory }) => memory))];
      const arrays = located.map(({ memory }) => buffers.indexOf(memory));
      const text = kernelText(values, kernel, arrays, this.#guard(kernel));
      const offsets = located.map(({ byteOffset }) => byteOffset / 4);
      parameters.set([...offsets, ...kernel.numbers], (position * stride) / 4);
      return {
        pipeline: this.#session.pipeline(text, buffers.length, kernel.label),
        bindings: this.#bindings(buffers),
        parameterOffset: position * stride,
        groups: kernel.groups,
        check: kernel.check,
      };
    });
    this.#bound = { key, dispatches, parameters };
    return this.#bound;
  }

  #bindings(buffers: readonly GPUBuffer[]): GPUBindGroup {
    const parameters = this.#parameters;
    if (parameters === undefined) throw new RangeError('a program without kernels has no bindings');
    const resources = [
      { buffer: parameters, offset: 0, size: this.#parameterStride },
      ...buffers.map((buffer) => ({ buffer })),
    ];
    return this.#session.device.createBindGroup({
      layout: this.#session.layout(buffers.length),
      entries: resources.map((resource, binding) => ({ binding, resource })),
    });
  }

  #locate(id: number, inputs: readonly GpuBuffer[], outputs: readonly GpuBuffer[]): Located {
    const { inPlace, faults, outputs: outputIds, values } = this.#plan;
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

function disposedError(): BackendError {
  return new BackendError({
    asked: 'to run a program',
    found: 'its executable has been disposed of',
    todo: 'Compile the program again',
  });
}
