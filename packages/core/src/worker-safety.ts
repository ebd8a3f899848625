/**
 * Call before the first worker thread starts. Node strips TypeScript with a WebAssembly module whose
 * calls into JavaScript get a compiled wrapper after 1,000 calls; where several threads reach that at
 * once, V8 13.6 frees a wrapper that is in use and ends the process. With a budget that is never
 * reached the threads keep the generic wrapper, which is shared by design.
 */
export function keepGenericWasmWrappers(): void {
  process
    .getBuiltinModule('node:v8')
    .setFlagsFromString('--wasm-wrapper-tiering-budget=1000000000');
}
