import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError } from '@shardwise/core/extend';
import { paintOf } from '../../terminal/paint.ts';
import { Screen } from '../../terminal/screen.ts';
import type { RunStatus } from '../../together/protocol/run-status.ts';
import { membersLines, type MembersView } from './members-lines.ts';
import { readStatus } from './members-source.ts';

interface TopOfMembersOptions {
  readonly url: URL;
  /** Whether to show the run only once. */
  readonly once: boolean;
  readonly json: boolean;
  /** The file of a page, which the coordinator serves itself. */
  readonly page: string | undefined;
}

const AGAIN_MS = 1000;
const MAX_HISTORY = 600;
/** The columns of tables that go to a file or another program. */
const WIDE = 160;

/** Shows who trains together until Ctrl-C. Throws ConfigError for options that do not fit, and the errors of readStatus. */
export async function topOfMembers({ url, once, json, page }: TopOfMembersOptions): Promise<void> {
  if (page !== undefined) {
    throw new ConfigError(
      {
        asked: `the page ${page} of a run with a coordinator`,
        found: 'a coordinator that serves this page itself',
        todo: 'Open the address that `shardwise coordinate` prints under "Who is there"',
      },
      { page },
    );
  }
  const { stdout } = process;
  const paint = paintOf(stdout);
  const first = await readStatus(url);
  if (json) {
    stdout.write(`${JSON.stringify(first, null, 2)}\n`);
    return;
  }
  const viewOf = (history: readonly RunStatus[], status: RunStatus): MembersView => ({
    url: url.href,
    status,
    history,
  });
  const showOnce = (view: MembersView): void => {
    const columns = stdout.isTTY ? stdout.columns : WIDE;
    stdout.write(`${membersLines(view, { columns, rows: Infinity }, paint).join('\n')}\n`);
  };
  if (once || !stdout.isTTY) {
    showOnce(viewOf([first], first));
    return;
  }
  const screen = new Screen(stdout);
  const left = new AbortController();
  const leave = (): void => left.abort();
  process.once('SIGINT', leave).once('SIGTERM', leave);
  let [history, status]: [readonly RunStatus[], RunStatus] = [[first], first];
  try {
    while (!left.signal.aborted) {
      const { rows } = stdout;
      const lines = membersLines(viewOf(history, status), { columns: screen.columns, rows }, paint);
      screen.draw(lines);
      await delay(AGAIN_MS, undefined, { signal: left.signal }).catch(() => undefined);
      if (left.signal.aborted) break;
      status = await readStatus(url);
      history = [...history, status];
      // Of a long watch, every second status is enough.
      if (history.length > MAX_HISTORY) history = history.filter((_, index) => index % 2 === 1);
    }
  } finally {
    process.off('SIGINT', leave).off('SIGTERM', leave);
    screen.draw([]);
  }
  showOnce(viewOf(history, status));
}
