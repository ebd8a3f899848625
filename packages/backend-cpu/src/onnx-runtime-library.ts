/**
 * Loads ONNX Runtime's library, as the first session of a rank does, and returns its path. Throws BackendError if it
 * isn't installed or doesn't load.
 */
export async function onnxRuntimeLibrary(): Promise<string> {
  const [{ runtime }, { libraryPath }] = await Promise.all([
    import('./engines/onnx/runtime/api.ts'),
    import('./engines/onnx/runtime/library-path.ts'),
  ]);
  runtime();
  return libraryPath();
}
