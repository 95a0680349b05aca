// Who gets which version: the weights of Models, and what Releases make of them.

/**
 * Return [{name, aliases, fallbacks, versions: [{name, backend, upstream, weight, share, release}]}]. `share` is of the
 * callers that a Release matches, where there is one.
 */
export function routing(models, releases) {
  return models.map(({ metadata, spec }) => {
    const versions = spec.versions.map((version) => ({
      name: version.name, backend: version.backend, upstream: version.upstreamModel ?? metadata.name, weight: version.weight ?? 100,
    }));
    const total = versions.reduce((sum, version) => sum + version.weight, 0) || 1;
    for (const version of versions) version.share = version.weight / total;
    for (const release of releases) {
      if (release.spec.model !== metadata.name || !release.status) continue;
      const [from, to] = [release.spec.from, release.spec.to].map((name) => versions.find((version) => version.name === name));
      if (!from || !to) continue;
      const both = from.share + to.share;
      const part = release.status.share / 100;
      Object.assign(from, { share: both * (1 - part), release: release.metadata.name });
      Object.assign(to, { share: both * part, release: release.metadata.name });
    }
    return { name: metadata.name, aliases: spec.aliases ?? [], fallbacks: spec.fallbacks ?? [], degrade: spec.degrade ?? [], versions };
  });
}
