import { BackendError, type DType, type Shape } from '@shardwise/core/spec';
import { isElementwiseOp, isFusable } from './handles.ts';
import type { KernelInstruction, KernelProgram } from './kernel-program.ts';
import { indexKernel } from '../emit/wasm/indexing/index-kernel.ts';
import { movesRows } from '../emit/wasm/move/moves-rows.ts';
import { permutedView, slicedView, type View, wholeView } from '../program/view.ts';
import {
  type RowKernel,
  rowKernel,
  sumOfHalves,
  withResidual,
} from '../emit/wasm/rows/row-kernel.ts';
import { elementCount } from '@shardwise/core/base';
import {
  type Access,
  type ElementwiseOp,
  type LaneDType,
  laneDType,
  expandAccess,
} from '../lanes/loop-spec.ts';

/** A value that a node reads. Views (reshape, expand) are folded into the access. */
export interface Reference {
  readonly node: number;
  readonly access: Access;
}

interface NodeBase {
  readonly id: number;
  readonly dtype: DType;
  readonly elements: number;
  readonly inputs: readonly Reference[];
  /** The value that the node computes. The node may use its memory. */
  readonly value: number;
}

export interface LoopNode extends NodeBase {
  readonly kind: 'loop';
  readonly dtype: LaneDType;
  readonly op: ElementwiseOp | 'copy';
  readonly inputDType: LaneDType;
  readonly approximate: 'none' | 'tanh' | undefined;
  /** The row length that the node's accesses imply. */
  readonly columns: number | undefined;
}

/** A box of a moved value: the input's elements that it is copied from, and where it starts in each dim. */
interface MovedPart {
  /** The view of the input's memory. */
  readonly source: View;
  readonly starts: readonly number[];
}

/** A value that is put together from parts of its inputs. Each input has one part. */
export interface MoveNode extends NodeBase {
  readonly kind: 'move';
  readonly shape: Shape;
  readonly parts: readonly MovedPart[];
}

export interface RowNode extends NodeBase {
  readonly kind: 'row';
  readonly kernel: RowKernel;
}

export type KernelNode =
  | (NodeBase & { readonly kind: 'input' })
  | (NodeBase & { readonly kind: 'constant'; readonly constant: number })
  | LoopNode
  | MoveNode
  | RowNode;

type NewNode<N extends KernelNode = KernelNode> = N extends KernelNode ? Omit<N, 'id'> : never;

const ELEMENT: Access = { kind: 'element' };

/** A program as the nodes that compute something, in program order. It has no nodes for views. */
export class KernelGraph {
  readonly nodes: KernelNode[] = [];
  /** Maps a value to the node that stores it. */
  readonly stores: Map<number, number> = new Map();
  readonly #program: KernelProgram;
  /** How often each value is read, or is an output. */
  readonly #uses = new Map<number, number>();
  readonly #references = new Map<number, Reference>();
  /**
   * Movements that are only carried out when something needs their values in memory. Other movements read through them.
   */
  readonly #moves = new Map<number, NewNode<MoveNode>>();

  constructor(program: KernelProgram) {
    this.#program = program;
    const read = program.instructions.flatMap(({ inputs }) => inputs);
    for (const value of [...read, ...program.outputs, ...program.inPlace.keys()]) {
      this.#uses.set(value, (this.#uses.get(value) ?? 0) + 1);
    }
    for (const instruction of program.instructions) this.#add(instruction);
    for (const value of new Set([...program.outputs, ...program.inPlace.keys()])) {
      this.stores.set(value, this.#storing(value));
    }
  }

  node(id: number): KernelNode {
    const node = this.nodes[id];
    if (!node) throw new RangeError(`No node ${id} among ${this.nodes.length}.`);
    return node;
  }

  /** Returns the node of an input of the program, if anything reads it. */
  inputNode(value: number): number | undefined {
    const reference = this.#references.get(value);
    if (!reference) return undefined;
    return this.node(reference.node).kind === 'input' ? reference.node : undefined;
  }

  #add(instruction: KernelInstruction): void {
    const { op, output, params } = instruction;
    const types = instruction.inputs.map((input) => this.#type(input));
    const { dtype } = instruction;
    const elements = elementCount(instruction.shape);
    const base = { dtype, elements, value: output };
    const [first] = instruction.inputs;
    const indexing = indexKernel(instruction, types, first !== undefined && this.#isZero(first));
    const kernel = rowKernel(instruction, types);
    if (indexing) {
      const read = instruction.inputs.slice(indexing.makesZeros ? 1 : 0);
      const inputs = read.map((input) => this.#stored(input));
      this.#define(output, { kind: 'row', kernel: indexing, inputs, ...base });
    } else if (kernel) {
      const halves = this.#halvesOf(kernel, first);
      const inputs = halves?.inputs ?? instruction.inputs.map((input) => this.#stored(input));
      this.#define(output, { kind: 'row', kernel: halves?.kernel ?? kernel, inputs, ...base });
    } else if (movesRows(instruction, types)) {
      this.#moves.set(output, this.#move(instruction, base));
    } else if (!isFusable(instruction, types)) {
      throw new BackendError({
        asked: `a kernel for ${op} -> ${dtype} [${instruction.shape.join(', ')}]`,
        found: `inputs ${types.map((type) => `${type.dtype} [${type.shape.join(', ')}]`).join(', ')}`,
        todo: 'Give the kernels only what isFusable or wasmHandles accepts',
      });
    } else if (op === 'constant') {
      const node = this.#push({ kind: 'constant', constant: params.value, inputs: [], ...base });
      this.#references.set(output, { node, access: { kind: 'scalar', elementOffset: 0 } });
    } else if (op === 'reshape' && first !== undefined) {
      this.#references.set(output, this.#reference(first));
    } else if (op === 'expand' && first !== undefined) {
      this.#expand(instruction, first);
    } else if (isElementwiseOp(op)) {
      const node = this.#gradientWithResidual(instruction, base);
      this.#define(output, node ?? this.#loop(instruction, op, base));
    }
  }

  /**
   * Turns a sum of values that were cast from bf16 into a sum of the bf16 values, so that no f32 copy of them lies in
   * memory.
   */
  #halvesOf(kernel: RowKernel, input = -1): Pick<RowNode, 'kernel' | 'inputs'> | undefined {
    const ofHalves = sumOfHalves(kernel);
    if (ofHalves === undefined) return undefined;
    const { access, node: id } = this.#reference(input);
    const node = this.node(id);
    const source = widened(node);
    if (source === undefined || access.kind !== 'element') return undefined;
    if (this.node(source.node).dtype !== 'bf16') return undefined;
    return { kernel: ofHalves, inputs: [source] };
  }

  /** Whether every element of a value is known to be 0. */
  #isZero(value: number): boolean {
    const reference = this.#references.get(value);
    const node = reference && this.node(reference.node);
    return node?.kind === 'constant' && Object.is(node.constant, 0);
  }

  #loop(
    instruction: KernelInstruction,
    op: ElementwiseOp,
    base: Pick<NodeBase, 'dtype' | 'elements' | 'value'>,
  ): NewNode<LoopNode> {
    const approximate =
      instruction.op === 'gelu' || instruction.op === 'geluGrad'
        ? instruction.params.approximate
        : undefined;
    const last = instruction.inputs.at(-1);
    const inputDType = laneDType(last === undefined ? base.dtype : this.#type(last).dtype);
    const inputs =
      op === 'random' ? this.#key(instruction.inputs) : this.#ofOneRowLength(instruction.inputs);
    const columns = inputs.map(({ access }) => columnsOf(access)).find((count) => count);
    const dtype = laneDType(base.dtype);
    return { kind: 'loop', op, inputDType, approximate, columns, inputs, ...base, dtype };
  }

  /** Lets the kernel that computes dx add a residual to it, if nothing else reads dx. */
  #gradientWithResidual(
    { op, inputs }: KernelInstruction,
    base: Pick<NodeBase, 'dtype' | 'elements' | 'value'>,
  ): NewNode<RowNode> | undefined {
    if (op !== 'add') return undefined;
    for (const [index, value] of inputs.entries()) {
      const other = inputs[1 - index];
      const reference = this.#references.get(value);
      const node = reference && this.node(reference.node);
      if (node?.kind !== 'row' || node.inputs.length !== 3 || this.#uses.get(node.value) !== 1) {
        continue;
      }
      const kernel = withResidual(node.kernel);
      if (!kernel || node.value !== value || other === undefined) continue;
      return { kind: 'row', kernel, inputs: [...node.inputs, this.#stored(other)], ...base };
    }
    return undefined;
  }

  /** Returns references to both halves of a random key, as scalars. */
  #key(inputs: readonly number[]): Reference[] {
    return inputs.flatMap((input) => {
      const { node } = this.#stored(input);
      return [0, 1].map((elementOffset): Reference => ({
        node,
        access: { kind: 'scalar', elementOffset },
      }));
    });
  }

  /**
   * Returns references that agree in their row length. An input whose row length differs from the first is written to
   * memory.
   */
  #ofOneRowLength(inputs: readonly number[]): Reference[] {
    let columns: number | undefined;
    return inputs.map((input) => {
      const reference = this.#reference(input);
      const own = columnsOf(reference.access);
      columns ??= own;
      return own === undefined || own === columns ? reference : this.#stored(input);
    });
  }

  #expand(instruction: KernelInstruction, input: number): void {
    const access = expandAccess(this.#type(input).shape, instruction.shape);
    if (!access) throw new RangeError('An expand that loops cannot read was accepted.');
    const reference = this.#reference(input);
    const isView = reference.access.kind === 'element' || access.kind === 'element';
    if (access.kind === 'element' || reference.access.kind === 'scalar') {
      this.#references.set(instruction.output, reference);
    } else {
      const { node } = isView ? reference : this.#stored(input);
      this.#references.set(instruction.output, { node, access });
    }
  }

  /** Makes the node of a movement. A movement of a movement becomes one movement. */
  #move(
    instruction: KernelInstruction,
    base: Pick<NodeBase, 'dtype' | 'elements' | 'value'>,
  ): NewNode<MoveNode> {
    const { shape, inputs, params, op } = instruction;
    const move = { kind: 'move', shape, ...base } as const;
    const [first = -1] = inputs;
    if (op === 'permute') {
      const from = this.#moved(first);
      const parts = from.parts.map(({ source, starts }) => ({
        source: permutedView(source, params.order),
        starts: params.order.map((dim) => starts[dim] ?? 0),
      }));
      return { ...move, inputs: from.inputs, parts };
    }
    if (op === 'slice') {
      const { node, source } = this.#view(first);
      const zeros = shape.map(() => 0);
      const part = { source: slicedView(source, params.starts, shape), starts: zeros };
      return { ...move, inputs: [node], parts: [part] };
    }
    if (op !== 'concat') throw new RangeError(`${op} moves no rows.`);
    let start = 0;
    const views = inputs.map((input) => {
      const view = this.#view(input);
      const starts = shape.map((_, dim) => (dim === params.dim ? start : 0));
      start += this.#type(input).shape[params.dim] ?? 0;
      return { ...view, starts };
    });
    return {
      ...move,
      inputs: views.map(({ node }) => node),
      parts: views.map(({ source, starts }) => ({ source, starts })),
    };
  }

  /** Returns the parts of a value. A value that lies in memory is its only part. */
  #moved(value: number): Pick<MoveNode, 'inputs' | 'parts'> {
    const known = this.#moves.get(value);
    if (known) return known;
    const { node, source } = this.#view(value);
    return { inputs: [node], parts: [{ source, starts: source.dims.map(() => 0) }] };
  }

  /** Returns a value as a view of memory. */
  #view(value: number): { readonly node: Reference; readonly source: View } {
    const move = this.#moves.get(value);
    const [node] = move?.inputs ?? [];
    const [part, ...others] = move?.parts ?? [];
    if (node && part && others.length === 0) return { node, source: part.source };
    return { node: this.#stored(value), source: wholeView(this.#type(value).shape) };
  }

  #type(value: number): KernelProgram['values'][number] {
    const type = this.#program.values[value];
    if (!type)
      throw new RangeError(`Value ${value} of ${this.#program.values.length} has no type.`);
    return type;
  }

  #reference(value: number): Reference {
    const known = this.#references.get(value);
    if (known) return known;
    const move = this.#moves.get(value);
    if (move) return this.#define(value, move);
    const type = this.#type(value);
    const elements = elementCount(type.shape);
    const { dtype } = type;
    return this.#define(value, { kind: 'input', dtype, elements, inputs: [], value });
  }

  /** Returns a reference to the value as it lies in memory. A view that repeats elements is written to memory first. */
  #stored(value: number): Reference {
    const reference = this.#reference(value);
    return reference.access.kind === 'element' ? reference : this.#copy(value, reference);
  }

  /** Returns the node that stores an output. Loops can store any number of values, other nodes only their own. */
  #storing(value: number): number {
    const reference = this.#stored(value);
    const node = this.node(reference.node);
    const isOwn = (node.kind === 'row' || node.kind === 'move') && node.value === value;
    const isDirect = node.kind === 'loop' || isOwn;
    return isDirect ? node.id : this.#copy(value, reference).node;
  }

  #copy(value: number, reference: Reference): Reference {
    const dtype = laneDType(this.node(reference.node).dtype);
    const elements = elementCount(this.#type(value).shape);
    const columns = columnsOf(reference.access);
    return this.#define(value, {
      kind: 'loop',
      op: 'copy',
      inputs: [reference],
      inputDType: dtype,
      approximate: undefined,
      dtype,
      elements,
      columns,
      value,
    });
  }

  #define(value: number, node: NewNode): Reference {
    const reference: Reference = { node: this.#push(node), access: ELEMENT };
    this.#references.set(value, reference);
    return reference;
  }

  #push(node: NewNode): number {
    const id = this.nodes.length;
    this.nodes.push({ ...node, id });
    return id;
  }
}

/** Whether a node computes something that takes memory if it is read elsewhere. */
export function isComputed({ kind }: KernelNode): boolean {
  return kind === 'loop' || kind === 'row' || kind === 'move';
}

export function columnsOf(access: Access): number | undefined {
  return access.kind === 'row' || access.kind === 'column' ? access.columns : undefined;
}

/** Returns the 16-bit elements that a node converts to f32. Returns undefined for other nodes. */
export function widened(node: KernelNode): Reference | undefined {
  if (node.kind !== 'loop' || node.op !== 'cast' || node.dtype !== 'f32') return undefined;
  const [source] = node.inputs;
  const isHalf = node.inputDType === 'bf16' || node.inputDType === 'f16';
  return isHalf && source?.access.kind === 'element' ? source : undefined;
}
