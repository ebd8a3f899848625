import { BackendError } from '@shardwise/core/spec';
import { isElementwiseOp, isFusable } from '../handles.ts';
import type { KernelInstruction, KernelProgram } from '../kernel-program.ts';
import { type Access, type ElementwiseOp, type LaneDType, isLaneDType } from '../loop-spec.ts';
import { type RowKernel, rowKernel } from '../rows/row-kernel.ts';
import { elementCount, expandAccess } from './access.ts';

/** A value read by a node: views (reshape, expand) are folded into the access. */
export interface Reference {
  readonly node: number;
  readonly access: Access;
}

interface NodeBase {
  readonly id: number;
  readonly dtype: LaneDType;
  readonly elements: number;
  readonly inputs: readonly Reference[];
  /** The value that the node computes, whose memory it may use. */
  readonly value: number;
}

export interface LoopNode extends NodeBase {
  readonly kind: 'loop';
  readonly op: ElementwiseOp | 'copy';
  readonly inputDType: LaneDType;
  readonly approximate: 'none' | 'tanh' | undefined;
  /** Row length that its accesses imply. */
  readonly columns: number | undefined;
}

export type KernelNode =
  | (NodeBase & { readonly kind: 'input' })
  | (NodeBase & { readonly kind: 'constant'; readonly constant: number })
  | LoopNode
  | (NodeBase & { readonly kind: 'row'; readonly kernel: RowKernel });

type NewNode<N extends KernelNode = KernelNode> = N extends KernelNode ? Omit<N, 'id'> : never;

const ELEMENT: Access = { kind: 'element' };

/** The program as nodes that compute something, in program order, without views. */
export class KernelGraph {
  readonly nodes: KernelNode[] = [];
  /** Value -> node that is to store it. */
  readonly stores: Map<number, number> = new Map();
  readonly #program: KernelProgram;
  readonly #references = new Map<number, Reference>();

  constructor(program: KernelProgram) {
    this.#program = program;
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

  /** The node of an input of the program, if anything reads it. */
  inputNode(value: number): number | undefined {
    const reference = this.#references.get(value);
    if (!reference) return undefined;
    return this.node(reference.node).kind === 'input' ? reference.node : undefined;
  }

  #add(instruction: KernelInstruction): void {
    const { op, output, params } = instruction;
    const types = instruction.inputs.map((input) => this.#type(input));
    const dtype = laneDType(instruction, output);
    const elements = elementCount(instruction.shape);
    const base = { dtype, elements, value: output };
    const kernel = rowKernel(instruction, types);
    const [first] = instruction.inputs;
    if (kernel) {
      const inputs = instruction.inputs.map((input) => this.#stored(input));
      this.#define(output, { kind: 'row', kernel, inputs, ...base });
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
      this.#define(output, this.#loop(instruction, op, base));
    }
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
    const inputDType = last === undefined ? base.dtype : laneDType(this.#type(last), last);
    const inputs =
      op === 'random' ? this.#key(instruction.inputs) : this.#ofOneRowLength(instruction.inputs);
    const columns = inputs.map(({ access }) => columnsOf(access)).find((count) => count);
    return { kind: 'loop', op, inputDType, approximate, columns, inputs, ...base };
  }

  /** Both halves of a random key, as scalars. */
  #key(inputs: readonly number[]): Reference[] {
    return inputs.flatMap((input) => {
      const { node } = this.#stored(input);
      return [0, 1].map((elementOffset): Reference => ({
        node,
        access: { kind: 'scalar', elementOffset },
      }));
    });
  }

  /** References whose row lengths agree; what disagrees with the first is written out. */
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

  #type(value: number): KernelProgram['values'][number] {
    const type = this.#program.values[value];
    if (!type)
      throw new RangeError(`Value ${value} of ${this.#program.values.length} has no type.`);
    return type;
  }

  #reference(value: number): Reference {
    const known = this.#references.get(value);
    if (known) return known;
    const type = this.#type(value);
    const dtype = laneDType(type, value);
    const elements = elementCount(type.shape);
    return this.#define(value, { kind: 'input', dtype, elements, inputs: [], value });
  }

  /** A reference to the value as it lies in memory; a view that repeats is written out. */
  #stored(value: number): Reference {
    const reference = this.#reference(value);
    return reference.access.kind === 'element' ? reference : this.#copy(value, reference);
  }

  /** The node that stores an output. Loops store any number of values, rows only their own. */
  #storing(value: number): number {
    const reference = this.#stored(value);
    const node = this.node(reference.node);
    const isDirect = node.kind === 'loop' || (node.kind === 'row' && node.value === value);
    return isDirect ? node.id : this.#copy(value, reference).node;
  }

  #copy(value: number, reference: Reference): Reference {
    const { dtype } = this.node(reference.node);
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

export function columnsOf(access: Access): number | undefined {
  return access.kind === 'row' || access.kind === 'column' ? access.columns : undefined;
}

function laneDType(type: KernelProgram['values'][number], value: number): LaneDType {
  if (isLaneDType(type.dtype)) return type.dtype;
  throw new BackendError({
    asked: `a kernel on value ${value}`,
    found: `dtype ${type.dtype}`,
    todo: 'Give the kernels f32, i32 and bool values only',
  });
}
