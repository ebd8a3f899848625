import { loadCheckpoint } from './load-checkpoint.ts';

/**
 * Throws CheckpointError if files of the checkpoint in `folder` are missing, broken or cut off. With `contents`, it
 * also reads all files and verifies every byte.
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
