import { fromData, type Tensor } from 'shardwise';

/** Hides a token of BERT's inputs. */
const MASK_TOKEN = 103;

/** How the rows of a batch are made. */
export interface BatchOptions {
  /** What the model predicts: the tokens that are hidden, or each next token. */
  readonly task: 'masked' | 'causal';
  readonly vocabulary: number;
  readonly rows: number;
  readonly length: number;
}

/** Makes the ids of a step. Rows are numbered over all ranks. */
function tokenOf({ vocabulary }: BatchOptions, step: number, row: number, column: number): number {
  return (row * 3109 + step * 1709 + column * (311 + 7 * (row % 5))) % vocabulary;
}

/**
 * The share of a rank in the batch of a step. bench/peers/transformers_models.py makes the same. Shape: inputIds and
 * labels i32 [rows, length].
 */
export function batchOf(
  options: BatchOptions,
  step: number,
  rank: number,
): { readonly inputIds: Tensor; readonly labels: Tensor } {
  const { task, rows, length } = options;
  const make = (value: (token: number, isHidden: boolean) => number): Tensor => {
    const values = Int32Array.from({ length: rows * length }, (_, index) => {
      const [row, column] = [Math.floor(index / length) + rows * rank, index % length];
      return value(tokenOf(options, step, row, column), (column + row) % 7 === 3);
    });
    return fromData(values, [rows, length], 'i32');
  };
  if (task === 'causal')
    return { inputIds: make((token) => token), labels: make((token) => token) };
  return {
    inputIds: make((token, isHidden) => (isHidden ? MASK_TOKEN : token)),
    labels: make((token, isHidden) => (isHidden ? token : -100)),
  };
}

/** Prompts for generation, of equal lengths. */
export function promptsOf(options: BatchOptions): number[][] {
  return Array.from({ length: options.rows }, (_, row) =>
    Array.from({ length: options.length }, (_token, column) => tokenOf(options, 0, row, column)),
  );
}
