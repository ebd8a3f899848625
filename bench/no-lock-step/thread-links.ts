import { dist } from 'shardwise';

/** The transport of a rank whose peers are all threads of this process. */
export function threadLinks(
  world: dist.transports.ThreadsWorld,
  rank: number,
): dist.transports.WatchedTransport {
  const local = dist.transports.joinThreadsWorld(world, rank);
  const { size } = local;
  const unreachable = (): Promise<never> => Promise.reject(new Error('there is no other host'));
  const remote: dist.transports.WatchedTransport = {
    specificationVersion: 1,
    rank,
    size,
    send: unreachable,
    recv: unreachable,
    close: () => {},
    ended: new Promise(() => {}),
  };
  return dist.transports.hostedTransport({
    local,
    remote,
    hosts: Array.from({ length: size }, () => 0),
  });
}
