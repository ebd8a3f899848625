import { expect, test } from 'vitest';

test('tests run on the Node that npm installs with the repository', () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  expect(major > 24 || (major === 24 && minor >= 9)).toBe(true);
});
