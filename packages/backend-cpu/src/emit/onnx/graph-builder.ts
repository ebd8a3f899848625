import type { ValueType } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';
import { sameShape, type CpuInstruction, valueAt } from '../../program/instruction.ts';
import {
  type OnnxGraph,
  tensorTypes,
  type Attribute,
  type OnnxInitializer,
  type OnnxNode,
  type TensorType,
} from './model.ts';
import { constantBits } from '../../lanes/constant-bits.ts';
import type { Operand } from './operand.ts';
import { sessionType } from './session-type.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/** The little-endian bytes of one element of each type. */
const scalarBytes: { readonly [T in TensorType]: (value: number) => Uint8Array } = {
  f32: (value) => new Uint8Array(Float32Array.of(value).buffer),
  f64: (value) => new Uint8Array(Float64Array.of(value).buffer),
  i32: (value) => new Uint8Array(Int32Array.of(value).buffer),
  i64: (value) => new Uint8Array(BigInt64Array.of(BigInt(value)).buffer),
  u8: (value) => Uint8Array.of(value),
  u16: (value) => new Uint8Array(Uint16Array.of(value).buffer),
  f16: (value) => new Uint8Array(Float16Array.of(value).buffer),
  bf16: (value) => new Uint8Array(Uint16Array.of(constantBits('bf16', value)).buffer),
  bool: (value) => Uint8Array.of(value),
};

/**
 * Collects the nodes of one ONNX graph. Names depend only on the graph's structure, so equal graphs have equal bytes.
 */
export class GraphBuilder {
  readonly #values: readonly ValueType[];
  readonly #inputs: readonly number[];
  readonly #nodes: OnnxNode[] = [];
  readonly #initializers = new Map<string, OnnxInitializer>();
  readonly #operands = new Map<number, Operand>();
  readonly #scalars = new Map<string, number>();
  readonly #converted: ReadonlyMap<number, TensorType>;
  /** Whether nodes may be of ONNX Runtime's own operator set. */
  readonly usesRuntimeOps: boolean;
  #names = 0;

  /**
   * `converted` are the inputs and outputs that are declared with another type than `sessionType` gives, because the
   * session converts them. With 'standard' ops, all nodes are of the standard operator set.
   */
  constructor(
    values: readonly ValueType[],
    inputs: readonly number[],
    converted: ReadonlyMap<number, TensorType>,
    ops: 'runtime' | 'standard' = 'runtime',
  ) {
    this.usesRuntimeOps = ops === 'runtime';
    this.#converted = converted;
    this.#values = values;
    this.#inputs = inputs;
    for (const [index, id] of inputs.entries()) {
      this.#operands.set(id, { name: inputName(index), shape: this.type(id).shape });
    }
  }

  type(id: number): ValueType {
    return valueAt(this.#values, id);
  }

  /** Whether an instruction converts a 16-bit input to f32, or f32 to a 16-bit output. */
  converts(instruction: CpuInstruction): boolean {
    if (isNarrowing(instruction, this.#values)) return this.#converted.has(instruction.output);
    return (
      isWidening(instruction, this.#values) &&
      instruction.inputs.every((id) => this.#converted.has(id))
    );
  }

  define(id: number, operand: Operand): void {
    this.#operands.set(id, operand);
  }

  /** Returns the operand for a node that broadcasts its inputs. */
  operand(id: number): Operand {
    const operand = this.#operands.get(id);
    if (operand === undefined) throw new RangeError(`value ${id} is not in the graph yet`);
    return operand;
  }

  /** Returns the operand for a node that needs the value's own shape. */
  exact(id: number): Operand {
    const operand = this.operand(id);
    const { shape } = this.type(id);
    if (sameShape(operand.shape, shape)) return operand;
    const op = elementCount(operand.shape) === elementCount(shape) ? 'Reshape' : 'Expand';
    const expanded = { name: this.emit(op, [operand.name, this.int64s(shape)]), shape };
    this.#operands.set(id, expanded);
    return expanded;
  }

  /** Adds a node with one output and returns the output's name. */
  emit(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    domain: OnnxNode['domain'] = '',
  ): string {
    const name = `v${this.#names++}`;
    this.#nodes.push({ op, domain, inputs, outputs: [name], attributes });
    return name;
  }

  /** Adds a node with two outputs and returns the name of the second one. */
  emitSecond(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>>,
  ): string {
    const outputs = [`v${this.#names++}`, `v${this.#names++}`] as const;
    this.#nodes.push({ op, domain: '', inputs, outputs, attributes });
    return outputs[1];
  }

  cast(name: string, type: TensorType): string {
    return this.emit('Cast', [name], { to: { int: tensorTypes[type] } });
  }

  scalar(type: TensorType, value: number): string {
    const name = `${type}:${Object.is(value, -0) ? '-0' : value}`;
    this.#scalars.set(name, value);
    return this.#initializer(name, { name, type, shape: [], bytes: scalarBytes[type](value) });
  }

  /** Returns the number that a name of `scalar` stands for. Returns undefined for other names. */
  constantOf(name: string): number | undefined {
    return this.#scalars.get(name);
  }

  /**
   * Returns the name of a 1-D tensor of these numbers, which may be axes, a shape or pads. The name does not contain
   * the numbers, because they may depend on sizes.
   */
  int64s(values: readonly number[]): string {
    const name = `c${this.#initializers.size}`;
    return this.#initializer(`[${values.join(',')}]`, { name, sizes: values });
  }

  /** The element type of an instruction's result. */
  typeOf({ output, dtype }: CpuInstruction): TensorType {
    return this.#converted.get(output) ?? sessionType(dtype);
  }

  /** Returns the graph. Its inputs are named i0, i1, …, and its outputs o0, o1, … */
  finish(outputs: readonly number[]): OnnxGraph {
    const renamed = new Map<string, string>();
    for (const [index, id] of outputs.entries()) this.#output(id, outputName(index), renamed);
    const rename = (name: string): string => renamed.get(name) ?? name;
    const describe = (id: number, name: string) => {
      const { shape, dtype } = this.type(id);
      return { name, shape, type: this.#converted.get(id) ?? sessionType(dtype) };
    };
    return {
      nodes: this.#nodes.map((node) => ({
        ...node,
        inputs: node.inputs.map(rename),
        outputs: node.outputs.map(rename),
      })),
      initializers: [...this.#initializers.values()],
      inputs: this.#inputs.map((id, index) => describe(id, inputName(index))),
      outputs: outputs.map((id, index) => describe(id, outputName(index))),
    };
  }

  /**
   * Makes a value an output. If possible, the value's node writes the output directly. Inputs, constants, and values
   * that are an output already are copied.
   */
  #output(id: number, output: string, renamed: Map<string, string>): void {
    const { name } = this.exact(id);
    const written = this.#nodes.some((node) => node.outputs.includes(name));
    if (written && !renamed.has(name)) {
      renamed.set(name, output);
    } else {
      const attributes = {};
      this.#nodes.push({
        op: 'Identity',
        domain: '',
        inputs: [name],
        outputs: [output],
        attributes,
      });
    }
  }

  /** Returns the name of the initializer with this content. Adds `tensor` if there is none yet. */
  #initializer(content: string, tensor: OnnxInitializer): string {
    const known = this.#initializers.get(content) ?? tensor;
    this.#initializers.set(content, known);
    return known.name;
  }
}

export function inputName(index: number): string {
  return `i${index}`;
}

export function outputName(index: number): string {
  return `o${index}`;
}
