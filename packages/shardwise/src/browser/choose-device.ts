import { BackendError } from '@shardwise/core/extend';

/** The device of the ranks of a page, and why it was chosen. */
export interface PageDevice {
  readonly kind: 'webgpu' | 'wasm';
  readonly reason: string;
}

/**
 * Chooses the device that startRanks uses for all ranks of a world. 'auto' means the GPU if there is only one rank and
 * the browser has a GPU, and otherwise WebAssembly, because several ranks would share one GPU. A page can call this to
 * offer only the devices that exist.
 *
 * Throws BackendError if 'webgpu' was asked for and does not exist. Its field `reason` says why.
 */
export async function chooseDevice(
  asked: 'auto' | 'webgpu' | 'wasm',
  size: number,
): Promise<PageDevice> {
  if (asked === 'wasm') return { kind: 'wasm', reason: 'it was asked for' };
  if (asked === 'auto' && size > 1) {
    return { kind: 'wasm', reason: `${size} ranks would share one GPU` };
  }
  const found = await findAdapter();
  if (asked === 'webgpu') {
    if (found.kind !== 'none') return { kind: 'webgpu', reason: 'it was asked for' };
    throw new BackendError(
      {
        asked: "ranks of a page on device: 'webgpu'",
        found: found.reason,
        todo: "Use device: 'auto', which takes WebAssembly then",
      },
      { device: asked, reason: found.reason },
    );
  }
  if (found.kind === 'gpu') return { kind: 'webgpu', reason: found.reason };
  return { kind: 'wasm', reason: found.reason };
}

interface FoundAdapter {
  readonly kind: 'gpu' | 'software' | 'none';
  readonly reason: string;
}

async function findAdapter(): Promise<FoundAdapter> {
  const { gpu } = globalThis.navigator ?? {};
  if (gpu === undefined) return { kind: 'none', reason: 'this browser has no WebGPU here' };
  const adapter = await gpu.requestAdapter().catch(() => null);
  if (adapter === null) return { kind: 'none', reason: 'WebGPU has no adapter here' };
  const { vendor, architecture, description, isFallbackAdapter } = adapter.info;
  const name = [vendor, architecture, description].filter(Boolean).join(' ') || 'unnamed';
  return isFallbackAdapter || /swiftshader|llvmpipe/iu.test(name)
    ? { kind: 'software', reason: `the adapter of WebGPU, ${name}, computes on the CPU` }
    : { kind: 'gpu', reason: `the browser has a GPU: ${name}` };
}
