import type { CpuBackend } from '@shardwise/backend-cpu';
import type { Backend, DeviceBuffer, Executable, Program } from '@shardwise/core/spec';

/**
 * A device that plans and allocates as `device` does, and computes nothing: its memory is taken, and no page of it is
 * touched. All values are 0.
 */
export function dryDevice(device: CpuBackend): Backend {
  const scratch = new DryScratch(device);
  return {
    specificationVersion: 1,
    name: device.name,
    limits: device.limits,
    alloc: (byteLength) => device.alloc(byteLength),
    free: (buffer) => device.free(buffer),
    write: () => {},
    read: async ({ byteLength }, target = new Uint8Array(byteLength)) => target.fill(0),
    map: (buffer) => device.map(buffer),
    compile: async (program) => scratch.executable(program),
    sync: () => device.sync(),
    usage: () => device.usage(),
  };
}

/** The temporary memory that all programs of the device share, which is as large as that of the largest one. */
class DryScratch {
  readonly #device: CpuBackend;
  #demanded = 0;
  #buffer: DeviceBuffer | undefined;

  constructor(device: CpuBackend) {
    this.#device = device;
  }

  executable(program: Program): Executable {
    this.#demanded = Math.max(this.#demanded, this.#device.temporaryBytes(program));
    return { run: async () => this.#take(), dispose: () => {} };
  }

  #take(): void {
    if (this.#demanded <= (this.#buffer?.byteLength ?? 0)) return;
    if (this.#buffer !== undefined) this.#device.free(this.#buffer);
    this.#buffer = this.#device.alloc(this.#demanded);
  }
}
