import type { Executable } from '../../spec/backend.ts';
import type { DType, Shape } from '../../spec/dtype.ts';
import type { Op } from '../../spec/op.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import { ownersOf, type PlannedNodes } from '../times/program-parts.ts';
import { occupantsOf } from './occupants.ts';

/** What lies in some memory. */
interface MemoryContent {
  readonly op: Op;
  readonly shape: Shape;
  readonly dtype: DType;
  /** The node of the run that it is computed for, by its index among them. -1: of none. */
  readonly node: number;
  /** The number of the run. */
  readonly run: number;
}

/** A value that lies in an allocation, or in the temporary memory of the device, for a time. Times are milliseconds. */
export interface MemoryValue {
  readonly content: MemoryContent;
  readonly bytes: number;
  readonly fromMs: number;
  /** Infinity for a value that lies there until the memory is freed. */
  readonly toMs: number;
}

/** The values of one run, whose times become known while it goes on. */
export class WatchedRun {
  /** For each allocation of the run, the values that lie in it. */
  readonly lists: MemoryValue[][];
  readonly #plan: ExecutionPlan;
  readonly #owners: Int32Array;
  readonly #number: number;
  /** For each step, when it began and ended. NaN: nobody has told. */
  readonly #begins: Float64Array;
  readonly #ends: Float64Array;

  constructor(plan: ExecutionPlan, nodes: PlannedNodes, number: number) {
    this.#plan = plan;
    this.#number = number;
    this.#owners = ownersOf(plan, nodes);
    this.#begins = new Float64Array(plan.steps.length).fill(Number.NaN);
    this.#ends = new Float64Array(plan.steps.length).fill(Number.NaN);
    const { allocations, scratchBuffers } = plan.memory;
    this.lists = [...allocations, ...scratchBuffers].map(() => []);
    const roots = new Set(plan.graph.roots);
    for (const { place, value, first, last } of occupantsOf(plan)) {
      const at = place.kind === 'result' ? place.allocation : allocations.length + place.buffer;
      const content = this.#contentOf(value);
      if (content === null) continue;
      const isKept = place.kind === 'result' && roots.has(value);
      const fromMs = (): number => this.#beginOf(first);
      const toMs = (): number => (isKept ? Infinity : this.#endOf(last));
      this.lists[at]?.push({
        content,
        bytes: place.byteLength,
        get fromMs() {
          return fromMs();
        },
        get toMs() {
          return toMs();
        },
      });
    }
  }

  begin(step: number): void {
    this.#begins[step] = performance.now();
  }

  finish(step: number, ms: number): void {
    this.#ends[step] = ms;
  }

  /** What lies in the device's own temporary memory while it runs a program. Its parts are spread over its time. */
  temporariesOf(
    { temporaries }: Executable,
    step: number,
    fromMs: number,
    toMs: number,
  ): readonly MemoryValue[] {
    const planned = this.#plan.steps[step];
    if (temporaries === undefined || planned?.kind !== 'compute') return [];
    const at = (part: number): number => fromMs + ((toMs - fromMs) * part) / temporaries.parts;
    return temporaries.values.flatMap(({ id: local, byteLength, first, last }) => {
      const id = planned.values[local - planned.inputs.length];
      const content = id === undefined ? this.contentOfProgram(step) : this.#contentOf(id);
      if (content === null) return [];
      return { content, bytes: byteLength, fromMs: at(first), toMs: at(last + 1) };
    });
  }

  /** What stands for all of a program. */
  contentOfProgram(step: number): MemoryContent | null {
    const planned = this.#plan.steps[step];
    return planned?.kind === 'compute' ? this.#contentOf(planned.values.at(-1) ?? -1) : null;
  }

  #contentOf(id: number): MemoryContent | null {
    const value = this.#plan.graph.values[id];
    if (value === undefined) return null;
    const { op, shape, dtype } = value;
    return { op, shape, dtype, node: this.#owners[id] ?? -1, run: this.#number };
  }

  /** When a step began, or the next one of which that is known. */
  #beginOf(step: number): number {
    const known = this.#begins.subarray(step).find((ms) => !Number.isNaN(ms));
    return known ?? this.#endOf(this.#ends.length - 1);
  }

  /** When a step ended: at the latest when the next one began. */
  #endOf(step: number): number {
    const own = this.#ends[step] ?? Number.NaN;
    if (!Number.isNaN(own)) return own;
    const next = this.#begins.subarray(step + 1).find((ms) => !Number.isNaN(ms));
    return next ?? Infinity;
  }
}
