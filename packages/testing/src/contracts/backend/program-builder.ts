import type {
  ComputeOp,
  ComputeParams,
  DType,
  Instruction,
  Program,
  Shape,
  ValueType,
} from '@shardwise/core/spec';

/** An instruction without its inputs. */
export type Operation = {
  [K in ComputeOp]: { readonly op: K; readonly params: ComputeParams[K] };
}[ComputeOp];

/** Writes a program by hand. Declare the inputs first, then add ops. Both return value ids. */
export class ProgramBuilder {
  readonly #inputs: ValueType[] = [];
  readonly #instructions: Instruction[] = [];
  readonly #updates: { target: number; value: number }[] = [];

  input(shape: Shape, dtype: DType = 'f32'): number {
    if (this.#instructions.length > 0) throw new Error('declare the inputs before the first op');
    return this.#inputs.push({ shape, dtype }) - 1;
  }

  op(operation: Operation, inputs: readonly number[], shape: Shape, dtype: DType = 'f32'): number {
    const instruction = { ...operation, inputs, shape, dtype };
    return this.#inputs.length + this.#instructions.push(instruction) - 1;
  }

  /** Replaces the contents of the input `target` by `value`. */
  update(target: number, value: number): this {
    this.#updates.push({ target, value });
    return this;
  }

  build(...outputs: number[]): Program {
    return {
      inputs: [...this.#inputs],
      instructions: [...this.#instructions],
      outputs,
      updates: [...this.#updates],
    };
  }
}
