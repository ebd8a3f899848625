/** The file of the run's directory into which rank 0 writes what was measured. */
export const LINKS_FILE = 'links.json';
