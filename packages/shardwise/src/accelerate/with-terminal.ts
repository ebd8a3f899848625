import { createInterface } from 'node:readline/promises';
import { ConfigError } from '@shardwise/core/extend';
import type { Ask } from './questions.ts';

/** Runs `body` with a function that asks in the terminal, or with undefined if there is none. */
export async function withTerminal(body: (ask: Ask | undefined) => Promise<void>): Promise<void> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return body(undefined);
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const ended = new AbortController();
  lines.once('close', () => ended.abort());
  try {
    await body(async (prompt) => {
      try {
        return await lines.question(prompt, { signal: ended.signal });
      } catch (cause) {
        throw new ConfigError(
          {
            asked: '`shardwise config`',
            found: 'the end of the input before all questions were answered',
            todo: 'Start it again, or write --default. No file was written',
          },
          {},
          { cause },
        );
      }
    });
  } finally {
    lines.close();
  }
}
