import { CheckpointError, type HostArray } from '@shardwise/core/extend';
import type { ReadableFiles } from '../places/checkpoint-files.ts';
import { ChunkFiles } from './chunk-files.ts';
import type { SectionName, StoredTensor } from '../format/index-file.ts';

/** The tensors of a checkpoint's model, optimizer or other states. They are read when they are asked for. */
export class StoredTensors {
  readonly #files: ReadableFiles;
  readonly #directory: string;
  readonly #section: SectionName;
  readonly #worldSize: number;
  readonly #tensors: ReadonlyMap<string, StoredTensor>;

  constructor(
    files: ReadableFiles,
    directory: string,
    section: SectionName,
    worldSize: number,
    tensors: readonly StoredTensor[],
  ) {
    this.#files = files;
    this.#directory = directory;
    this.#section = section;
    this.#worldSize = worldSize;
    this.#tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  }

  /** The names of the tensors. */
  get names(): readonly string[] {
    return [...this.#tensors.keys()];
  }

  /** Returns the dtype, the whole shape, and where the elements lie. Returns undefined for an unknown name. */
  get(name: string): StoredTensor | undefined {
    return this.#tensors.get(name);
  }

  /** Reads a whole tensor. Throws CheckpointError. */
  async read(name: string): Promise<HostArray> {
    const tensor = this.get(name);
    if (tensor === undefined) {
      throw new CheckpointError(
        {
          asked: `Reading ${name} from ${this.#directory}`,
          found: `no such tensor of the ${this.#section} among ${this.#tensors.size}`,
          todo: 'Ask for one of its names',
        },
        { name },
      );
    }
    await using files = this.open();
    return await files.read(tensor);
  }

  /** Opens the files, to read many tensors. */
  open(): ChunkFiles {
    return new ChunkFiles(this.#files, this.#directory, this.#section, this.#worldSize);
  }
}
