import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openPage, onRanks, reasonWithoutBrowser } from '@shardwise/testing/node';
import { expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { runShardwise } from '../support/run-shardwise.ts';
import { buildPage } from './build-page.ts';
import { serveFolder } from './serve-folder.ts';
import { trainMember } from './together-page/train-member.ts';

const memberResult = z.object({ states: z.record(z.string(), z.string()) });
const reason = reasonWithoutBrowser();
/** In so many rounds, the coordinator passes on nothing of pages that reach each other. */
const DIRECT_ROUNDS = 5;
/** All members have seen so many rounds in which all were there. The last one may have ended their training. */
const COMMON_ROUNDS = 3;

it.skipIf(reason !== undefined)(
  'Node and two pages of different speeds train one model by `shardwise coordinate`, and have the same bits after each round; the pages reach each other directly',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shardwise-together-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    await buildPage(join(import.meta.dirname, 'together-page'), folder);
    const port = await freePort();
    const [url, token] = [`ws://127.0.0.1:${port}`, 'a token that members know'];
    const tokenFile = join(folder, 'run.token');
    writeFileSync(tokenFile, token);
    const listening = Promise.withResolvers<() => void>();
    const coordinator = runShardwise(
      ['coordinate', '--port', String(port), '--token-file', tokenFile],
      {
        cwd: folder,
        when: {
          prints: 'Who is there',
          act: (child) => listening.resolve(() => child.kill('SIGTERM')),
        },
      },
    );
    const end = await listening.promise;
    onTestFinished(end);
    const taskOf = (name: string): object => ({ url, token, name, members: 3 });
    const pages = ['first page', 'second page'].map(async (name) => {
      await using server = await serveFolder(folder, { isolated: true, tasks: taskOf(name) });
      await using _page = openPage(server.url, { withWebGpu: false });
      return memberResult.parse(await server.result);
    });
    const trained = Promise.all(pages);
    const address = `http://127.0.0.1:${port}/status`;
    // A page that fails ends the test at once.
    await Promise.race([trained, expectDirect(address)]);
    const node = onRanks(1, () => trainMember({ url, token, name: 'Node', members: 3 }));
    const [[own], others] = await Promise.all([node, trained]);
    const seen = [own, ...others].map((each) => new Map(Object.entries(each?.states ?? {})));
    const [first = new Map<string, string>()] = seen;
    const common = [...first.keys()].filter((round) => seen.every((states) => states.has(round)));
    expect(common.length).toBeGreaterThanOrEqual(COMMON_ROUNDS);
    for (const round of common) {
      expect([round, new Set(seen.map((states) => states.get(round))).size]).toEqual([round, 1]);
    }
    end();
    expect((await coordinator).exitCode).toBe(0);
  },
);

const runStatus = z.object({
  completed: z.int(),
  relayedBytes: z.int(),
  members: z.array(z.object({ place: z.string(), link: z.string() })),
});

/** Waits until two pages have trained for some rounds in which the coordinator has passed on nothing. */
async function expectDirect(address: string): Promise<void> {
  let first: z.infer<typeof runStatus> | null = null;
  for (;;) {
    const status = runStatus.parse(await (await fetch(address)).json());
    const { members, completed, relayedBytes } = status;
    const areDirect = members.every(({ place, link }) => place === 'training' && link === 'direct');
    if (members.length === 2 && areDirect) first ??= status;
    else first = null;
    if (first !== null && completed >= first.completed + DIRECT_ROUNDS) {
      // An update of the round in which they found each other may have been under way.
      if (relayedBytes === first.relayedBytes) return;
      first = status;
    }
    await delay(50);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
