import type { Node } from '../../graph/node.ts';
import type { Backend, DeviceBuffer, Executable, MemoryUsage } from '../../spec/backend.ts';
import { ConfigError } from '../../spec/errors.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { PlanStep } from '../steps/plan-step.ts';
import { addPlanTimer } from '../times/add-plan-timer.ts';
import type { PlannedNodes } from '../times/program-parts.ts';
import { type MemoryValue, WatchedRun } from './watched-run.ts';

/** Memory that was allocated and freed as one piece. */
export interface MemoryAllocation {
  /** The bytes that the device took for it. */
  readonly bytes: number;
  readonly fromMs: number;
  /** Infinity if it has not been freed. */
  toMs: number;
  /** The values that lie in it. Empty if it is all of one value, which is `leaf`, or not known. */
  readonly values: MemoryValue[];
  /** The leaf whose contents were brought to the device. */
  readonly leaf: Node | null;
}

/** What a device has allocated while it was watched. */
export interface MemoryRecord {
  readonly startMs: number;
  readonly endMs: number;
  /** The bytes in use from each of these times on, in the order of time. */
  readonly usage: readonly { readonly ms: number; readonly bytes: number }[];
  readonly allocations: readonly MemoryAllocation[];
  /** The values in temporary memory of the device itself, which programs share. */
  readonly temporaries: readonly MemoryValue[];
  /** The allocation that a buffer is, or is a part of. Undefined for what was allocated before. */
  allocationOf(buffer: DeviceBuffer): MemoryAllocation | undefined;
}

/** Hears of what happens while memory is watched. */
export interface MemoryListener {
  /** A run begins, which computes these nodes. They are in the order of the program. */
  run(nodes: readonly Node[]): void;
  /** Memory was freed that had been allocated before. */
  freedEarlier(ms: number): void;
}

/** The memory that a run is going to allocate, in this order. */
interface Expected {
  readonly lists: MemoryValue[][];
  next: number;
  /** Leaves that are not on the device. */
  readonly leaves: Node[];
}

/**
 * Watches the allocations of the session's device, and what runs put into them, until `end`. It replaces the methods of
 * the device for that time. Throws ConfigError for a device that does not count its memory.
 */
export class MemoryRecorder {
  readonly #backend: Backend;
  readonly #listener: MemoryListener;
  readonly #startMs: number = performance.now();
  readonly #usage: { ms: number; bytes: number }[] = [];
  readonly #allocations: MemoryAllocation[] = [];
  readonly #live = new Map<DeviceBuffer, MemoryAllocation>();
  readonly #parts = new WeakMap<DeviceBuffer, MemoryAllocation>();
  readonly #temporaries: MemoryValue[] = [];
  readonly #restore: () => void;
  #expected: Expected = { lists: [], next: 0, leaves: [] };
  #runs = 0;
  #isOver = false;
  #peakBytes: number;

  constructor(backend: Backend, listener: MemoryListener) {
    this.#backend = backend;
    this.#listener = listener;
    this.#peakBytes = this.#take(this.#startMs).peakBytes;
    const alloc = backend.alloc.bind(backend);
    const free = backend.free.bind(backend);
    const ends = [
      replaceMethod(backend, 'alloc', (byteLength) => this.#allocate(byteLength, alloc)),
      replaceMethod(backend, 'free', (buffer) => {
        free(buffer);
        this.#freed(buffer);
      }),
      addPlanTimer((plan, nodes) => this.#watched(plan, nodes)),
    ];
    this.#restore = () => ends.forEach((end) => end());
  }

  end(): MemoryRecord {
    this.#restore();
    this.#isOver = true;
    this.#take();
    return {
      startMs: this.#startMs,
      endMs: performance.now(),
      usage: this.#usage.toSorted((a, b) => a.ms - b.ms),
      allocations: this.#allocations,
      temporaries: this.#temporaries,
      allocationOf: (buffer) => this.#live.get(buffer) ?? this.#parts.get(buffer),
    };
  }

  /** Notes the bytes in use at a time, which is now by default. */
  #take(ms: number = performance.now(), usage: MemoryUsage = this.#count()): MemoryUsage {
    this.#usage.push({ ms, bytes: usage.bytesInUse });
    return usage;
  }

  #count(): MemoryUsage {
    const usage = this.#backend.usage?.();
    if (usage !== undefined) return usage;
    throw new ConfigError({
      asked: 'a timeline of memory',
      found: `the device ${this.#backend.name} does not count its memory`,
      todo: 'Use a device that does, such as cpu() or webgpu()',
    });
  }

  #allocate(byteLength: number, alloc: Backend['alloc']): DeviceBuffer {
    const before = this.#count().bytesInUse;
    const fromMs = performance.now();
    const buffer = this.#tryAllocate(byteLength, alloc);
    if (this.#isOver) return buffer;
    const bytes = this.#take(fromMs).bytesInUse - before;
    const { lists, next, leaves } = this.#expected;
    const values = lists[next];
    const leaf = values === undefined ? takeLeaf(leaves, byteLength) : null;
    this.#expected.next = next + 1;
    const allocation = { bytes, fromMs, toMs: Infinity, values: values ?? [], leaf };
    this.#allocations.push(allocation);
    this.#live.set(buffer, allocation);
    // Nodes have parts of allocations.
    const subBuffer = buffer.subBuffer.bind(buffer);
    replaceMethod(buffer, 'subBuffer', (...range) => {
      const part = subBuffer(...range);
      this.#parts.set(part, allocation);
      return part;
    });
    return buffer;
  }

  /** If there is no memory, the run collects garbage and allocates again from the beginning. */
  #tryAllocate(byteLength: number, alloc: Backend['alloc']): DeviceBuffer {
    try {
      return alloc(byteLength);
    } catch (error) {
      this.#expected.next = 0;
      throw error;
    }
  }

  #freed(buffer: DeviceBuffer): void {
    if (this.#isOver) return;
    const { ms } = this.#usage.at(-1) ?? { ms: 0 };
    const now = Math.max(ms, performance.now());
    const allocation = this.#live.get(buffer);
    if (allocation === undefined) this.#listener.freedEarlier(now);
    else allocation.toMs = now;
    this.#live.delete(buffer);
    this.#take(now);
  }

  /** Returns the plan with steps that tell when they run. */
  #watched(plan: ExecutionPlan, nodes: PlannedNodes): ExecutionPlan {
    const number = this.#runs++;
    this.#listener.run(nodes.computed);
    const run = new WatchedRun(plan, nodes, number);
    this.#expected = {
      lists: run.lists,
      next: 0,
      leaves: nodes.leaves.filter(({ value }) => value?.kind !== 'device'),
    };
    const watch = (step: PlanStep, index: number): PlanStep => {
      if (step.kind === 'compute') {
        return { ...step, executable: this.#watchedProgram(run, step.executable, index) };
      }
      if (step.kind !== 'start') return step;
      return {
        ...step,
        start: (...given) => {
          run.begin(index);
          return step.start(...given);
        },
      };
    };
    return { ...plan, steps: plan.steps.map(watch) };
  }

  #watchedProgram(run: WatchedRun, executable: Executable, step: number): Executable {
    return {
      ...(executable.temporaries && { temporaries: executable.temporaries }),
      run: async (inputs, outputs, options) => {
        run.begin(step);
        const fromMs = performance.now();
        const before = this.#count().bytesInUse;
        await executable.run(inputs, outputs, options);
        const toMs = performance.now();
        const { bytesInUse, peakBytes } = this.#count();
        // The device takes memory for its temporaries when a program begins.
        if (bytesInUse > before) this.#take(fromMs, { bytesInUse, peakBytes });
        this.#addSpike(run, step, { fromMs, toMs }, { bytesInUse, peakBytes });
        this.#take(toMs, { bytesInUse, peakBytes });
        this.#temporaries.push(...run.temporariesOf(executable, step, fromMs, toMs));
        run.finish(step, toMs);
      },
      dispose: () => executable.dispose(),
    };
  }

  /** Notes memory that the device took and gave back while it ran a program. */
  #addSpike(
    run: WatchedRun,
    step: number,
    { fromMs, toMs }: Pick<MemoryValue, 'fromMs' | 'toMs'>,
    { bytesInUse, peakBytes }: MemoryUsage,
  ): void {
    const highest = Math.max(this.#peakBytes, ...this.#usage.slice(-2).map(({ bytes }) => bytes));
    if (peakBytes > highest && peakBytes > bytesInUse) {
      this.#usage.push({ ms: fromMs, bytes: peakBytes });
      const content = run.contentOfProgram(step);
      const bytes = peakBytes - bytesInUse;
      if (content !== null) this.#temporaries.push({ content, bytes, fromMs, toMs });
    }
    this.#peakBytes = Math.max(this.#peakBytes, peakBytes);
  }
}

/** Replaces a method of an object, until the returned function is called. */
function replaceMethod<T extends object, K extends keyof T>(
  target: T,
  name: K,
  value: T[K],
): () => void {
  const before = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value, configurable: true, enumerable: false });
  return () => {
    // Another recorder may have replaced it since. Then it stays, and goes on to call this one.
    if (target[name] !== value) return;
    if (before === undefined) Reflect.deleteProperty(target, name);
    else Object.defineProperty(target, name, before);
  };
}

/** Takes the leaf of so many bytes that comes first. */
function takeLeaf(leaves: Node[], byteLength: number): Node | null {
  const at = leaves.findIndex(({ value }) => bytesOf(value) === byteLength);
  return leaves.splice(at, at < 0 ? 0 : 1)[0] ?? null;
}

function bytesOf(value: Node['value']): number | undefined {
  if (value?.kind === 'host') return value.bytes.byteLength;
  return value?.kind === 'paged' ? value.page.byteLength : undefined;
}
