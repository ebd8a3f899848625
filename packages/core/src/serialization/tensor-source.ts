import type { Chunk } from '../layout/chunks.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';

/** The type of a tensor of a source. */
export interface SourceTensor {
  /** The name under which the source has it, which other names may stand for. */
  readonly name: string;
  readonly dtype: DType;
  /** The shape of the whole tensor. */
  readonly shape: Shape;
}

/** The part of a tensor that a rank keeps. */
export interface SourcePart {
  readonly layout: Layout;
  /** Says that the mean of the ranks' values is loaded if each of another number of ranks has saved its own. */
  readonly otherwise?: 'mean';
}

/**
 * Tensors that lie outside of memory, such as a folder of safetensors files, a file of PyTorch, or a checkpoint. A
 * source knows the names, dtypes and shapes of its tensors, and reads any elements of them.
 */
export interface TensorSource {
  /** What errors call the source, such as the path of a folder. */
  readonly place: string;
  readonly names: readonly string[];
  /**
   * Whether reading can find damage that nothing has found before, as it can where files have checksums. All tensors
   * are then read before the first one of a model changes.
   */
  readonly isVerifiedByReading: boolean;
  /** Returns the type of a tensor. Returns undefined for an unknown name. */
  get(name: string): SourceTensor | undefined;
  /** Says why a tensor cannot be loaded into a part, although its shape and dtype fit. */
  whyNot?(name: string, part: SourcePart): string | undefined;
  /** Opens the files, to read many tensors. */
  open(): TensorReader;
}

/** Reads tensors of a source from its open files. */
export interface TensorReader extends AsyncDisposable {
  /**
   * Fills `target` with the elements of a chunk, in the dtype of the source. `target` has exactly the length of the
   * chunk. Throws CheckpointError for a damaged file.
   */
  fill(
    name: string,
    chunk: Chunk,
    target: Uint8Array<ArrayBuffer>,
    part: SourcePart,
  ): Promise<void>;
}
