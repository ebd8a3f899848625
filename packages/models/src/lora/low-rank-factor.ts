import { type Generator, Module, Parameter } from '@shardwise/core/extend';

/** The matrix A [r, in] or B [out, r] of an adapter, with the state name that PEFT gives it: `weight`. */
export class LowRankFactor extends Module {
  weight: Parameter;

  private constructor(values: Float32Array, rows: number, columns: number) {
    super();
    this.weight = new Parameter(values, [rows, columns]);
  }

  /** The initial values of torch.nn.Linear: uniform in ±1/sqrt(columns). */
  static drawn(generator: Generator, rows: number, columns: number): LowRankFactor {
    const bound = 1 / Math.sqrt(columns);
    return new LowRankFactor(generator.uniform(rows * columns, -bound, bound), rows, columns);
  }

  static ofZeros(rows: number, columns: number): LowRankFactor {
    return new LowRankFactor(new Float32Array(rows * columns), rows, columns);
  }

  protected override describe(): string {
    return this.weight.shape.join(', ');
  }
}
