/**
 * The size of each half of the heap of young objects. V8 lets it grow to 16 MiB, and the memory stays resident. A step
 * makes few and small objects. With 4 MiB it takes the same time, and a rank takes some 10 MiB less memory.
 */
const SEMI_SPACE_MEBIBYTES = 4;

/**
 * Limits for the worker thread of a rank. V8 counts three halves, because objects that survive move to a third
 * one.
 */
export const rankResourceLimits: { readonly maxYoungGenerationSizeMb: number } = {
  maxYoungGenerationSizeMb: 3 * SEMI_SPACE_MEBIBYTES,
};

/** Options of Node for the process of a rank. */
export const rankProcessOptions: readonly string[] = [
  `--max-semi-space-size=${SEMI_SPACE_MEBIBYTES}`,
];

/**
 * Call this before the first worker thread starts. Node strips TypeScript with a WebAssembly module whose calls
 * into JavaScript get a compiled wrapper after 1,000 calls. If several threads reach this number at the same
 * time, V8 13.6 frees a wrapper that is in use and ends the process. With a budget that is never reached, the
 * threads keep the generic wrapper, which is shared by design.
 */
export function keepGenericWasmWrappers(): void {
  process
    .getBuiltinModule('node:v8')
    .setFlagsFromString('--wasm-wrapper-tiering-budget=1000000000');
}
