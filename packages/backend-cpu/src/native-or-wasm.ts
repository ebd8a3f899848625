import type { CpuParts } from './cpu-backend.ts';
import type { Arena } from './memory/arena.ts';
import { wasmParts } from './wasm-parts.ts';

/**
 * Returns the parts that `load` gives. If native code does not load, warns, and returns parts that only use
 * WebAssembly.
 */
export async function nativeOrWasm(arena: Arena, load: () => Promise<CpuParts>): Promise<CpuParts> {
  try {
    return await load();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.warn(
      `shardwise: WebAssembly alone computes on the CPU, as native code does not load: ${reason}`,
    );
    return wasmParts(arena, reason);
  }
}
