import { loadCheckpoint } from './load-checkpoint.ts';

/**
 * Throws CheckpointError where files of the checkpoint in `folder` are missing, broken or cut, and, with
 * `contents`, where a byte of them is not as it was written: then all of it is read.
 */
export async function verifyCheckpoint(
  folder: string,
  { contents }: { readonly contents: boolean },
): Promise<void> {
  const { model, optimizer, states } = await loadCheckpoint(folder);
  if (!contents) return;
  for (const section of [model, optimizer, states]) {
    await using files = section.open();
    for (const name of section.names) {
      const tensor = section.get(name);
      if (tensor === undefined) continue;
      const boxes = files.boxes(tensor);
      while ((await boxes.next()).done !== true);
    }
  }
}
