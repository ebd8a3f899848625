import type { Backend, DeviceBuffer } from '../spec/backend.ts';

/** One allocation, perhaps shared by several storages (the gradients of a bucket). */
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

  /** A storage of some of these bytes. The memory is kept until both are released. */
  part(byteOffset: number, byteLength: number): Storage {
    return new Storage(this.#allocation, this.buffer.subBuffer(byteOffset, byteLength));
  }

  /** Another storage of the same bytes. */
  share(): Storage {
    return new Storage(this.#allocation, this.buffer);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#allocation.release();
  }
}
