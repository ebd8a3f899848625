import { once } from 'node:events';
import { isMainThread, MessagePort, workerData } from 'node:worker_threads';
import { ConfigError } from '@shardwise/core/extend';
import { isRankProcess } from '../launcher/processes/process-message.ts';
import {
  isLauncherOrder,
  isRankData,
  type LauncherOrder,
  type RankData,
} from '../launcher/ranks/rank-data.ts';
import type { MemberMessage } from '../launcher/ranks/member-message.ts';
import type { RankMessage } from '../run-state/run-message.ts';

/** A rank's end of the connection with the launcher that has started it. */
export interface LauncherLink {
  readonly data: RankData;
  send(message: RankMessage | MemberMessage): void;
  listen(onOrder: (order: LauncherOrder) => void): void;
  close(): void;
}

/**
 * Returns the link to the launcher. Returns undefined if this thread is not a rank that `shardwise run` has started.
 */
export async function findLauncher(): Promise<LauncherLink | undefined> {
  const data: unknown = workerData;
  if (isRankData(data) && 'port' in data && data.port instanceof MessagePort) {
    return threadLink(data, data.port);
  }
  return isMainThread && isRankProcess() ? processLink() : undefined;
}

function threadLink(data: RankData, port: MessagePort): LauncherLink {
  return {
    data,
    send: (message) => port.postMessage(message),
    listen: (onOrder) => {
      port.on('message', (value: unknown) => {
        if (isLauncherOrder(value)) onOrder(value);
      });
      port.unref();
    },
    close: () => port.close(),
  };
}

async function processLink(): Promise<LauncherLink> {
  // The channel keeps messages until somebody listens. It must keep the process alive until the data has come.
  process.channel?.ref();
  const [data]: readonly unknown[] = await once(process, 'message');
  process.channel?.unref();
  if (!isRankData(data)) {
    throw new ConfigError({
      asked: 'Joining the world of a launcher',
      found: 'it sends what no launcher of this version does, or `init` was called before',
      todo: 'Call `init` once, with one version of shardwise for the launcher and the script',
    });
  }
  return {
    data,
    send: (message) => {
      if (process.connected) process.send?.(message);
    },
    listen: (onOrder) => {
      process.on('message', (value: unknown) => {
        if (isLauncherOrder(value)) onOrder(value);
      });
    },
    close: () => undefined,
  };
}
