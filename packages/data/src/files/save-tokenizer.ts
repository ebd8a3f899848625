import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

const saveRules: OptionRules<{ readonly tokenizer: Tokenizer; readonly folder: string }> = {
  tokenizer: option.required(option.object<Tokenizer>('a tokenizer')),
  folder: option.required(option.nonEmptyText),
};

/**
 * Writes the files of a tokenizer into a folder, as beside a model (`tokenizer.save_pretrained` of transformers), which
 * `loadTokenizer` and transformers read. Each file appears when it is complete, so several ranks may write one folder.
 * Node only.
 */
export async function saveTokenizer(tokenizer: Tokenizer, folder: string): Promise<void> {
  checkOptions('saveTokenizer', { tokenizer, folder }, saveRules);
  await mkdir(folder, { recursive: true });
  for (const [name, contents] of Object.entries(tokenizer.files())) {
    const path = join(folder, name);
    const temporary = `${path}.${randomUUID()}.tmp`;
    await writeFile(temporary, contents);
    await rename(temporary, path);
  }
}
