import { isIP } from 'node:net';

/** Whether other machines cannot reach an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * Whether the `host` header of a request names this machine. A page of another address names that one, even if its owner
 * has let the name lead here (DNS rebinding).
 */
export function namesThisMachine(header: string | null): boolean {
  if (header === null) return true;
  const name = header.replace(/:\d{1,5}$/, '').toLowerCase();
  return isLoopback(name) || name === '[::1]' || name.endsWith('.localhost');
}
