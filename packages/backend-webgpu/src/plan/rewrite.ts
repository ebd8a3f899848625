import type { Instruction, Program, Shape } from '@shardwise/core/spec';
import { rewriteProduct } from './rewrite-product.ts';
import { Values } from '../program/values.ts';

/** The most inputs that one concatenation reads. A longer one becomes several. */
const WIDEST_CONCAT = 4;

export interface Rewritten {
  readonly values: Values;
  readonly outputs: readonly number[];
  readonly updates: Program['updates'];
}

/**
 * The program for which kernels are planned. Outputs that are inputs become copies of them. Long concatenations become
 * trees. Some products, and the gradients of norms' weights, become sums.
 */
export function rewrite(program: Program): Rewritten {
  const { inputs } = program;
  const instructions: Instruction[] = [];
  const origins: number[] = [];
  let origin = 0;
  const renamed = new Map<number, number>();
  const rename = (id: number): number => renamed.get(id) ?? id;
  const add = (instruction: Instruction): number => {
    instructions.push(instruction);
    origins.push(origin);
    return inputs.length + instructions.length - 1;
  };
  const sources = [...inputs, ...program.instructions];
  for (const [position, original] of program.instructions.entries()) {
    origin = position;
    const instruction: Instruction = { ...original, inputs: original.inputs.map(rename) };
    renamed.set(inputs.length + position, replace(instruction));
  }
  const results = new Set(
    [...program.outputs, ...program.updates.map(({ value }) => value)].map(rename),
  );
  const unreshapedTo = new Map<number, number>();
  const outputs = program.outputs.map((id) => {
    const type = sources[id];
    if (id >= inputs.length || type === undefined) return unreshaped(rename(id));
    return add({ op: 'reshape', params: { shape: type.shape }, inputs: [id], ...type });
  });
  const updates = program.updates.map(({ target, value }) => ({
    target,
    value: unreshaped(rename(value)),
  }));
  return { values: new Values({ inputs, instructions }, origins), outputs, updates };

  function shapeOf(id: number): Shape {
    const type = id < inputs.length ? inputs[id] : instructions[id - inputs.length];
    if (type === undefined) throw new RangeError(`no value ${id}`);
    return type.shape;
  }

  /**
   * The value from which a result is reshaped. A reshape needs no kernel to copy it, unless its source is a result
   * itself.
   */
  function unreshaped(id: number): number {
    const known = unreshapedTo.get(id);
    if (known !== undefined) return known;
    let source = id;
    for (;;) {
      const instruction = instructions[source - inputs.length];
      const [next = 0] = instruction?.inputs ?? [];
      if (instruction?.op !== 'reshape' || next < inputs.length || results.has(next)) break;
      source = next;
    }
    results.add(source);
    unreshapedTo.set(id, source);
    return source;
  }

  function replace(instruction: Instruction): number {
    switch (instruction.op) {
      case 'matmul':
        return rewriteProduct(instruction, { shapeOf, add }) ?? add(instruction);
      case 'concat':
        return add(narrow(instruction));
      case 'layerNormWeightGrad':
      case 'rmsNormWeightGrad':
        return weightGradient(instruction);
      default:
        return add(instruction);
    }
  }

  /** The gradient of a norm's weight: the rows as normalised with a weight of 1, times dy, summed over rows. */
  function weightGradient(
    instruction: Extract<Instruction, { op: 'layerNormWeightGrad' | 'rmsNormWeightGrad' }>,
  ): number {
    const {
      inputs: [x = 0, dy = 0],
      shape,
      dtype,
      params,
    } = instruction;
    const type = [...inputs, ...instructions][dy] ?? instruction;
    const constant = (value: number): number =>
      add({ op: 'constant', params: { value, shape, dtype }, inputs: [], shape, dtype });
    const of = { params, shape: type.shape, dtype };
    const normal =
      instruction.op === 'layerNormWeightGrad'
        ? add({ op: 'layerNorm', inputs: [x, constant(1), constant(0)], ...of })
        : add({ op: 'rmsNorm', inputs: [x, constant(1)], ...of });
    const product = add({ ...of, op: 'mul', params: {}, inputs: [dy, normal] });
    const dims = type.shape.slice(0, -1).map((_, dim) => dim);
    return add({ op: 'sum', params: { dims }, inputs: [product], shape, dtype });
  }

  function narrow(concat: Extract<Instruction, { op: 'concat' }>): Instruction {
    if (concat.inputs.length <= WIDEST_CONCAT) return concat;
    const { dim } = concat.params;
    const types = (): readonly { readonly shape: readonly number[] }[] => [
      ...inputs,
      ...instructions,
    ];
    const groups: number[] = [];
    for (let start = 0; start < concat.inputs.length; start += WIDEST_CONCAT) {
      const group = concat.inputs.slice(start, start + WIDEST_CONCAT);
      const size = group.reduce((sum, id) => sum + (types()[id]?.shape[dim] ?? 0), 0);
      groups.push(add({ ...concat, inputs: group, shape: concat.shape.with(dim, size) }));
    }
    return narrow({ ...concat, inputs: groups });
  }
}
