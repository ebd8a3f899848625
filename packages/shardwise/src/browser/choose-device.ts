import { BackendError } from '@shardwise/core/extend';

/** The device of the ranks of a page, and why it was chosen. */
export interface PageDevice {
  readonly kind: 'webgpu' | 'wasm';
  readonly reason: string;
}

/**
 * The device that startRanks takes for all ranks of a world: for 'auto' the GPU where one rank is alone and the browser has one, else
 * WebAssembly. Several ranks would share one GPU. A page calls it to offer only what there is.
 *
 * Throws BackendError where 'webgpu' was asked for and there is none; its field `reason` says why.
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
