import { CollectiveError, ConfigError } from '@shardwise/core/extend';
import {
  MAX_STATUS_BYTES,
  parseRunStatus,
  type RunStatus,
} from '../../together/protocol/run-status.ts';

const ANSWER_MS = 5000;

/** The address of the status of a coordinator, which answers at one port for members, pages and this. */
export function statusAddress(url: URL): string {
  const address = new URL('./status', url);
  address.protocol = url.protocol === 'wss:' || url.protocol === 'https:' ? 'https:' : 'http:';
  return address.href;
}

/**
 * Asks a coordinator who is there. Rejects with CollectiveError if nobody answers, and with ConfigError for an answer that is
 * none of a coordinator.
 */
export async function readStatus(url: URL): Promise<RunStatus> {
  const address = statusAddress(url);
  const asked = `who trains together at ${address}`;
  const signal = AbortSignal.timeout(ANSWER_MS);
  const text = await fetch(address, { signal, redirect: 'error' })
    .then((response) => limitedText(response))
    .catch((cause: unknown) => {
      const found = 'nobody who answers there';
      const todo = 'Start `shardwise coordinate`, and give the address that it prints';
      throw new CollectiveError({ asked, found, todo }, { address }, { cause });
    });
  const status = parseRunStatus(text);
  if (status !== null) return status;
  throw new ConfigError(
    {
      asked,
      found: 'an answer that no coordinator of this version gives',
      todo: 'Give the address that `shardwise coordinate` prints, and use its version of shardwise',
    },
    { address },
  );
}

/** Reads no more than a status can have. */
async function limitedText({ body }: Response): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const part of body ?? []) {
    text += decoder.decode(part, { stream: true });
    if (text.length > MAX_STATUS_BYTES) return '';
  }
  return text;
}
