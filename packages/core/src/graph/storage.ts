import type { Backend, DeviceBuffer } from '../spec/backend.ts';

/** One allocation. Several storages may share it, as those of the gradients of a bucket do. */
class Allocation {
  readonly backend: Backend;
  readonly buffer: DeviceBuffer;
  #references = 0;

  constructor(backend: Backend, buffer: DeviceBuffer) {
    this.backend = backend;
    this.buffer = buffer;
  }

  retain(): void {
    this.#references++;
  }

  release(): void {
    if (--this.#references === 0) this.backend.free(this.buffer);
  }
}

/**
 * The part of device memory that a node has. The memory is freed when all storages of its allocation are
 * released.
 */
export class Storage {
  readonly backend: Backend;
  readonly buffer: DeviceBuffer;
  readonly #allocation: Allocation;
  #released = false;

  private constructor(allocation: Allocation, buffer: DeviceBuffer) {
    this.backend = allocation.backend;
    this.buffer = buffer;
    this.#allocation = allocation;
    allocation.retain();
  }

  static allocate(backend: Backend, byteLength: number): Storage {
    const allocation = new Allocation(backend, backend.alloc(byteLength));
    return new Storage(allocation, allocation.buffer);
  }

  /** Makes a storage of a part of these bytes. The memory is kept until both storages are released. */
  part(byteOffset: number, byteLength: number): Storage {
    return new Storage(this.#allocation, this.buffer.subBuffer(byteOffset, byteLength));
  }

  /** Makes another storage of the same bytes. */
  share(): Storage {
    return new Storage(this.#allocation, this.buffer);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#allocation.release();
  }
}
