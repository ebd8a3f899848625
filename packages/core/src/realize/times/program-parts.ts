import { elementCount } from '../../base/shape.ts';
import type { Node } from '../../graph/node.ts';
import { flopsOf } from '../../graph/flops-of.ts';
import { dtypes, isHalfDType, type Shape } from '../../spec/dtype.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { Op } from '../../spec/op.ts';
import type { PlanStep } from '../steps/plan-step.ts';

/** The nodes whose values a plan computes. */
export interface PlannedNodes {
  readonly leaves: readonly Node[];
  /** In program order. */
  readonly computed: readonly Node[];
}

/** What a part of a program does for one of the nodes of the run. */
interface PartShare {
  /** The index of the node among those that the run computes. */
  readonly node: number;
  /** The share of the part's time and bytes that counts for the node. The shares of a part add up to 1. */
  readonly share: number;
  /** The floating-point operations of products: all of them, and those of 16-bit operands. */
  readonly flops: number;
  readonly halfFlops: number;
  /** Whether no earlier part of the run computes something of the node. */
  readonly isFirst: boolean;
}

/** Instructions that a device computes together: what they do for which nodes. */
export interface ProgramPart {
  readonly shares: readonly PartShare[];
  readonly flops: number;
  readonly halfFlops: number;
  /** The bytes that the part has to read and write at least: its operands and its results, each once. */
  readonly bytes: number;
}

/** The ops that make no values of their own, or values that each reader makes for itself. */
const views: ReadonlySet<Op> = new Set(['constant', 'expand', 'iota', 'reshape']);

/** What is done for a node, or in a part. */
interface Work {
  readonly flops: number;
  readonly elements: number;
}

/**
 * How the time of a whole program is divided: in the time of one byte, a device computes about this many operations, and
 * an element of a loop that is fused with others moves about this many bytes.
 */
const FLOPS_PER_BYTE = 32;
const BYTES_PER_ELEMENT = 2;

type ComputeStep = Extract<PlanStep, { kind: 'compute' }>;

/** Says what the parts of a plan's programs compute. Numbers are value ids, except where it says otherwise. */
export class PlanLayout {
  readonly #plan: ExecutionPlan;
  readonly #shapes: readonly Shape[] | null;
  /** By value, the index of the node that it is computed for. -1: of none. */
  readonly #owners: Int32Array;
  readonly #updates: ReadonlySet<number>;
  readonly #seen = new Set<number>();

  constructor(plan: ExecutionPlan, nodes: PlannedNodes, shapes: readonly Shape[] | null) {
    this.#plan = plan;
    this.#shapes = shapes;
    this.#owners = ownersOf(plan, nodes);
    this.#updates = new Set(plan.graph.updates.map(({ value }) => value));
  }

  /** The index of the node that a value is computed for. */
  ownerOf(value: number): number {
    return this.#owners[value] ?? -1;
  }

  /** The bytes of the input or of the output of a collective or a transfer, whichever has more. */
  bytesOfMessage(value: number): number {
    const inputs = this.#valueAt(value).inputs.map((id) => this.#bytesOf(id));
    return Math.max(this.#bytesOf(value), ...inputs);
  }

  #bytesOf(value: number): number {
    const { shape, dtype } = this.#valueAt(value);
    return elementCount(this.#shapes?.[value] ?? shape) * dtypes[dtype].bytes;
  }

  /**
   * The parts of a program. `parts` has the instructions of each, by their index in the program, and `nodes` are those
   * that the run computes.
   */
  partsOf(
    step: ComputeStep,
    parts: readonly (readonly number[])[],
    nodes: readonly Node[],
  ): readonly ProgramPart[] {
    const listed = parts.map((instructions) =>
      // A device may have instructions of its own, which no value stands for.
      instructions.flatMap((index) => step.values[index] ?? []),
    );
    const open = new Set(step.values).difference(new Set(listed.flat()));
    const computed = listed.map((values) => this.#withAbsorbed(values, open));
    const reads = computed.map((values) => this.#readsOf(values));
    const kept = new Set([...reads.flatMap((ids) => [...ids]), ...step.outputs, ...this.#updates]);
    return computed.map((values, index) =>
      this.#partOf(values, reads[index] ?? [], kept, nodes, (work, all) => {
        // Beside a product, loops over its result cost next to nothing.
        return all.flops > 0 ? work.flops / all.flops : work.elements / all.elements;
      }),
    );
  }

  /** A whole program as one part, of a device that does not say how it divides programs. `nodes` are as in `partsOf`. */
  wholeOf(step: ComputeStep, nodes: readonly Node[]): readonly ProgramPart[] {
    const reads = this.#readsOf(step.values);
    const kept = new Set([...step.outputs, ...this.#updates]);
    const timeOf = ({ flops, elements }: Work): number =>
      flops / FLOPS_PER_BYTE + BYTES_PER_ELEMENT * elements;
    return [
      this.#partOf(step.values, reads, kept, nodes, (work, all) => timeOf(work) / timeOf(all)),
    ];
  }

  /**
   * Adds the values that these read and that no part lists, such as views, and products whose bias is added on the spot.
   * Takes them out of `open`.
   */
  #withAbsorbed(values: readonly number[], open: Set<number>): readonly number[] {
    const all = new Set(values);
    for (const id of all) {
      for (const input of this.#valueAt(id).inputs) if (open.delete(input)) all.add(input);
    }
    return [...all];
  }

  #partOf(
    values: readonly number[],
    reads: Iterable<number>,
    kept: ReadonlySet<number>,
    nodes: readonly Node[],
    shareOf: (work: Work, all: Work) => number,
  ): ProgramPart {
    const written = values.filter((id) => kept.has(id));
    const bytes = [...reads, ...written].reduce((sum, id) => sum + this.#bytesOf(id), 0);
    const works = Map.groupBy(values, (id) => this.ownerOf(id));
    works.delete(-1);
    const amounts = Array.from(works, ([node, own]) => {
      const flops = own.map((id) => this.#flopsOf(id, nodes[node]));
      return {
        node,
        flops: sumOf(flops.map((each) => each.flops)),
        halfFlops: sumOf(flops.map((each) => (each.isHalf ? each.flops : 0))),
        elements: sumOf(own.map((id) => this.#elementsOf(id))),
      };
    });
    const all = {
      flops: sumOf(amounts.map(({ flops }) => flops)),
      elements: sumOf(amounts.map(({ elements }) => elements)),
    };
    const isNothing = all.flops === 0 && all.elements === 0;
    return {
      flops: all.flops,
      halfFlops: sumOf(amounts.map(({ halfFlops }) => halfFlops)),
      bytes,
      shares: amounts.map((work) => {
        const { node, flops, halfFlops } = work;
        const isFirst = !this.#seen.has(node);
        this.#seen.add(node);
        const share = isNothing ? 1 / amounts.length : shareOf(work, all);
        return { node, share, flops, halfFlops, isFirst };
      }),
    };
  }

  /** The values that others compute and that the given ones read. */
  #readsOf(values: readonly number[]): Set<number> {
    const own = new Set(values);
    return new Set(
      values.flatMap((id) => this.#valueAt(id).inputs.filter((input) => !own.has(input))),
    );
  }

  /** The elements that a value reads or writes. Views have none. */
  #elementsOf(value: number): number {
    const { op, inputs, shape } = this.#valueAt(value);
    if (views.has(op)) return 0;
    const sizes = inputs.map((id) => elementCount(this.#shapes?.[id] ?? this.#valueAt(id).shape));
    return Math.max(elementCount(this.#shapes?.[value] ?? shape), ...sizes);
  }

  #flopsOf(
    value: number,
    node: Node | undefined,
  ): { readonly flops: number; readonly isHalf: boolean } {
    const { op, params, inputs, shape } = this.#valueAt(value);
    if (node === undefined) return { flops: 0, isHalf: false };
    const isHalf = isHalfDType(node.inputs[0]?.dtype ?? 'f32');
    if (node.op === op) return { flops: flopsOf(node), isHalf };
    // A product that is part of a larger operation.
    if (op !== 'matmul') return { flops: 0, isHalf };
    const [a = -1] = inputs;
    const left = this.#shapes?.[a] ?? this.#valueAt(a).shape;
    const depth = left[left.length - (params.transposeA ? 2 : 1)] ?? 0;
    return { flops: 2 * elementCount(this.#shapes?.[value] ?? shape) * depth, isHalf };
  }

  #valueAt(id: number): ExecutionPlan['graph']['values'][number] {
    const value = this.#plan.graph.values[id];
    if (value === undefined) throw new RangeError(`no value ${id}`);
    return value;
  }
}

/**
 * For each value, the index of the node that it is computed for. The values of a composite lie before that of the
 * composite itself, because values are numbered in the order of the program.
 */
function ownersOf({ graph, ids }: ExecutionPlan, { leaves, computed }: PlannedNodes): Int32Array {
  const owners = new Int32Array(graph.values.length).fill(-1);
  for (let index = computed.length - 1; index >= 0; index--) {
    const id = ids[leaves.length + index];
    if (id !== undefined && id >= graph.leafCount) owners[id] = index;
  }
  for (let id = owners.length - 2; id >= graph.leafCount; id--) {
    if (owners[id] === -1) owners[id] = owners[id + 1] ?? -1;
  }
  return owners;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
