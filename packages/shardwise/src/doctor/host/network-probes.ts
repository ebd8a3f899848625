import type { Finding } from './finding.ts';
import type { Readings } from './readings.ts';

// What connects this host with others.

export function infiniBandProbe({ read, list }: Readings): Finding {
  const name = 'InfiniBand';
  const root = '/sys/class/infiniband';
  const ports = list(root).flatMap((device) =>
    list(`${root}/${device}/ports`).map((port) => {
      const field = (file: string): string =>
        (read(`${root}/${device}/ports/${port}/${file}`) ?? '').trim();
      const state = field('state').replace(/^\d+:\s*/, '') || 'unknown';
      const details = [state, field('rate'), field('link_layer')].filter((text) => text !== '');
      return { isActive: state === 'ACTIVE', text: `${device}/${port} ${details.join(', ')}` };
    }),
  );
  if (ports.length === 0) return { name, level: 'green', found: 'none' };
  const texts = ports.map(({ text }) => text);
  const figures = { ports: texts };
  const found = texts.join('; ');
  if (ports.every(({ isActive }) => isActive)) return { name, level: 'green', found, figures };
  const todo = 'Check the cable and the subnet manager of the ports that are not ACTIVE';
  return { name, level: 'yellow', found, todo, figures };
}

/** Slower links than this make most of a step communication. */
const SLOW_MEGABITS = 1000;

export function networkProbe({ read, list, platform }: Readings): Finding {
  const name = 'network';
  const root = '/sys/class/net';
  if (list(root).length === 0) {
    const found = platform === 'linux' ? 'the kernel does not say' : `not read on ${platform}`;
    return { name, level: 'green', found };
  }
  const links = list(root).flatMap((link) => {
    const field = (file: string): string => (read(`${root}/${link}/${file}`) ?? '').trim();
    if (link === 'lo' || !['up', 'unknown'].includes(field('operstate'))) return [];
    const speed = Number(field('speed'));
    const hasSpeed = /^\d+$/.test(field('speed')) && speed > 0;
    const texts = [
      link,
      ...(hasSpeed ? [`${speed} Mbit/s`] : []),
      `mtu ${field('mtu') || 'unknown'}`,
    ];
    return [{ text: texts.join(' '), speed: hasSpeed ? speed : Infinity }];
  });
  if (links.length === 0) {
    const todo = 'Connect the host to a network before it takes part in a run of several hosts';
    return { name, level: 'yellow', found: 'only the loopback', todo };
  }
  const found = links.map(({ text }) => text).join('; ');
  const figures = { links: links.map(({ text }) => text) };
  if (Math.max(...links.map(({ speed }) => speed)) >= SLOW_MEGABITS) {
    return { name, level: 'green', found, figures };
  }
  const todo =
    'Use a link of 1 Gbit/s or more between hosts, or send less: larger batches, or compressed gradients';
  return { name, level: 'yellow', found, todo, figures };
}

const STORE_PORT = 29_400;

export async function portsProbe({ portError, read }: Readings): Promise<Finding> {
  const name = 'ports';
  const error = await portError(STORE_PORT);
  const range = (read('/proc/sys/net/ipv4/ip_local_port_range') ?? '')
    .trim()
    .split(/\s+/)
    .join('-');
  const others = range === '' ? '' : `; ranks listen in ${range}`;
  const figures = { storePort: STORE_PORT, isFree: error === undefined, range };
  if (error === undefined) {
    return { name, level: 'green', found: `${STORE_PORT} is free${others}`, figures };
  }
  return {
    name,
    level: 'yellow',
    found: `${STORE_PORT} can't be used (${error})${others}`,
    todo: 'If this host is the first of several, give all of them another port: --rdzv HOST:PORT',
    figures,
  };
}
