import { type DecodedFormat, Embedding, type Parameter, type Tensor } from '@shardwise/core/extend';
import { columnsOf, decodedRowsAt } from './blocked-rows.ts';

/** A frozen Embedding whose weight is kept in the blocks of a file. A pass decodes the rows that it looks up. */
export class BlockedEmbedding extends Embedding {
  readonly format: DecodedFormat;
  /** The dtype of the vectors. */
  dtype: Tensor['dtype'];

  /** Shape: weight u8 [numEmbeddings, bytes of a row]. */
  constructor(weight: Parameter, format: DecodedFormat, dtype: Tensor['dtype']) {
    super(0, 0);
    this.weight = weight;
    this.format = format;
    this.dtype = dtype;
  }

  /** Shape: indices i32 N -> [N.., embeddingDim]. */
  override forward(indices: Tensor): Tensor {
    return decodedRowsAt(indices, this).to(this.dtype);
  }

  /** The blocks stay as they are, but not what is made of them. */
  protected override converted(dtype: Tensor['dtype']): void {
    this.dtype = dtype;
  }

  protected override describe(): string {
    const [rows = 0] = this.weight.shape;
    return `${rows}, ${columnsOf(this)}, format=${this.format.name}`;
  }
}
